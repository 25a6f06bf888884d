package decoder

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	// recordHeader is the writing subtransaction's xid and the length of what follows.
	recordHeader = 8
	// smallBlock and largeBlock are the sizes of a log's first and largest blocks of memory. A longer record goes to the
	// file at once.
	smallBlock, largeBlock = 4 << 10, 256 << 10
)

// SpillError says that the changes of a transaction which is still open at the source could not be kept on the local
// disk. Nothing is lost by it: a new stream brings the transaction again from its beginning.
type SpillError struct {
	XID  uint32
	Path string
	Err  error
}

func (e *SpillError) Error() string {
	return fmt.Sprintf("the changes of transaction %d, which is not committed at the source yet, cannot be kept in %s: %v; make room on that disk or mend it: the transaction is then read again from its beginning", e.XID, e.Path, e.Err)
}

func (e *SpillError) Unwrap() error { return e.Err }

// spool holds the logs of the transactions in progress. What they hold together in memory is bounded; the largest is
// written to its file first. It belongs to Run's goroutine.
type spool struct {
	// dir is where the files go; "" keeps everything in memory.
	dir string
	// limit bounds the memory of all logs, in bytes; held is what they have.
	limit, held int64
	logs        map[uint32]*streamLog
	stats       *counters
}

// streamLog is what has come of one transaction in progress, in order (promise 3: none of it goes on before its commit).
type streamLog struct {
	xid uint32
	// blocks are the newest records; older ones are in the file. A record lies in one block.
	blocks [][]byte
	held   int64
	path   string
	// written is the size of the file.
	written int64
	// dropped are the subtransactions that were rolled back.
	dropped map[uint32]bool
}

// begin makes an empty log.
func (s *spool) begin(xid uint32) *streamLog {
	l := &streamLog{xid: xid, dropped: map[uint32]bool{}, path: filepath.Join(s.dir, fmt.Sprintf("transaction-%d.log", xid))}
	s.logs[xid] = l
	s.stats.openLogs.Store(int64(len(s.logs)))
	return l
}

// add appends a record: a message of subtransaction xid, in two parts.
func (s *spool) add(l *streamLog, xid uint32, kind byte, body []byte) error {
	size := recordHeader + 1 + len(body)
	var header [recordHeader + 1]byte
	binary.BigEndian.PutUint32(header[:], xid)
	binary.BigEndian.PutUint32(header[4:], uint32(1+len(body)))
	header[recordHeader] = kind
	if size > largeBlock && s.dir != "" {
		if err := s.flush(l); err != nil {
			return err
		}
		return s.write(l, header[:], body)
	}
	n := len(l.blocks)
	if n == 0 || cap(l.blocks[n-1])-len(l.blocks[n-1]) < size {
		next := smallBlock
		if n > 0 {
			next = min(2*cap(l.blocks[n-1]), largeBlock)
		}
		next = max(next, size)
		for s.dir != "" && s.held > 0 && s.held+int64(next) > s.limit {
			if err := s.flush(s.largest()); err != nil {
				return err
			}
		}
		l.blocks = append(l.blocks, make([]byte, 0, next))
		l.held += int64(next)
		s.held += int64(next)
	}
	last := &l.blocks[len(l.blocks)-1]
	*last = append(append(*last, header[:]...), body...)
	return nil
}

func (s *spool) largest() *streamLog {
	var largest *streamLog
	for _, l := range s.logs {
		if largest == nil || l.held > largest.held {
			largest = l
		}
	}
	return largest
}

// flush writes a log's blocks to its file.
func (s *spool) flush(l *streamLog) error {
	if err := s.write(l, l.blocks...); err != nil {
		return err
	}
	s.held -= l.held
	l.blocks, l.held = nil, 0
	return nil
}

func (s *spool) write(l *streamLog, parts ...[]byte) error {
	if len(parts) == 0 {
		return nil
	}
	err := func() error {
		// Not kept open: there may be as many logs as the source has sessions.
		f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		for _, part := range parts {
			n, err := f.Write(part)
			l.written += int64(n)
			s.stats.spilled.Add(int64(n))
			if err != nil {
				return errors.Join(err, f.Close())
			}
		}
		return f.Close()
	}()
	if err != nil {
		return &SpillError{l.xid, l.path, err}
	}
	return nil
}

// each calls f with every record that was not rolled back, in order; data is f's for the call. size is called before the
// memory of a record, of that many bytes, is taken.
func (l *streamLog) each(size func(n int) error, f func(kind byte, body []byte) error) error {
	if l.written > 0 {
		if err := l.eachStored(size, f); err != nil {
			return err
		}
	}
	for _, block := range l.blocks {
		for len(block) > 0 {
			xid, n := binary.BigEndian.Uint32(block), int(binary.BigEndian.Uint32(block[4:]))
			record := block[recordHeader : recordHeader+n]
			block = block[recordHeader+n:]
			if l.dropped[xid] {
				continue
			}
			if err := size(n); err != nil {
				return err
			}
			if err := f(record[0], record[1:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachStored is each for the records in the file.
func (l *streamLog) eachStored(size func(n int) error, f func(kind byte, body []byte) error) error {
	file, err := os.Open(l.path)
	if err != nil {
		return &SpillError{l.xid, l.path, err}
	}
	defer file.Close()
	in := bufio.NewReaderSize(io.LimitReader(file, l.written), largeBlock)
	for left := l.written; left > 0; {
		header, err := in.Peek(recordHeader)
		if err != nil {
			return l.unreadable(err)
		}
		xid, n := binary.BigEndian.Uint32(header), int(binary.BigEndian.Uint32(header[4:]))
		if left -= int64(recordHeader + n); n == 0 || left < 0 {
			return l.unreadable(errors.New("a record is not as it was written"))
		}
		if l.dropped[xid] {
			if _, err := in.Discard(recordHeader + n); err != nil {
				return l.unreadable(err)
			}
			continue
		}
		if err := size(n); err != nil {
			return err
		}
		var record []byte
		if recordHeader+n <= largeBlock {
			if record, err = in.Peek(recordHeader + n); err != nil {
				return l.unreadable(err)
			}
		} else {
			record = make([]byte, recordHeader+n)
			if _, err := io.ReadFull(in, record); err != nil {
				return l.unreadable(err)
			}
		}
		if err := f(record[recordHeader], record[recordHeader+1:]); err != nil {
			return err
		}
		if recordHeader+n <= largeBlock {
			_, _ = in.Discard(recordHeader + n) // it was peeked at
		}
	}
	return nil
}

func (l *streamLog) unreadable(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &SpillError{l.xid, l.path, err}
}

// discard forgets a log.
func (s *spool) discard(l *streamLog) {
	s.held -= l.held
	delete(s.logs, l.xid)
	s.stats.openLogs.Store(int64(len(s.logs)))
	if l.written > 0 {
		// A file that stays is removed with the folder at the next start.
		_ = os.Remove(l.path)
	}
}

// close discards every log: after a reconnect the source sends all of what is in progress again.
func (s *spool) close() {
	for _, l := range s.logs {
		s.discard(l)
	}
}
