package reader

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages/message"
)

const (
	// headerSize is a wire frame's type byte and length.
	headerSize = 5
	// dataHeader and keepaliveSize are the fixed parts of the two replication messages, their type byte included.
	dataHeader    = 25
	keepaliveSize = 18
	// maxFrame bounds a frame: Postgres makes no message longer than 1 GiB.
	maxFrame = 1<<30 + 1<<10
	// postgresEpoch is 2000-01-01 in microseconds of Unix time.
	postgresEpoch = 946684800000000
)

// frameSize gives the size of the frame that data starts with, header included; 0 while the header is incomplete.
func frameSize(data []byte) (int, error) {
	if len(data) < headerSize {
		return 0, nil
	}
	length := binary.BigEndian.Uint32(data[1:])
	if length < 4 || length > maxFrame {
		return 0, malformed(fmt.Sprintf("a frame of type %q announces %d bytes", data[0], length))
	}
	return int(length) + 1, nil
}

// parse appends the messages of all whole frames in s.buf[:filled] to s.raw and gives the bytes that those frames took.
// answer tells that the server asks for a status update.
func (s *slab) parse(filled int) (taken int, answer bool, err error) {
	for {
		size, err := frameSize(s.buf[taken:filled])
		if err != nil {
			return taken, answer, err
		}
		if size == 0 || size > filled-taken {
			return taken, answer, nil
		}
		kind, body := s.buf[taken], s.buf[taken+headerSize:taken+size]
		taken += size
		if kind == 'd' {
			var asked bool
			if asked, err = s.copyData(body); err != nil {
				return taken, answer, err
			}
			answer = answer || asked
			continue
		}
		if err := other(kind, body); err != nil {
			return taken, answer, err
		}
	}
}

// copyData reads one replication message.
func (s *slab) copyData(body []byte) (asked bool, err error) {
	if len(body) == 0 {
		return false, malformed("an empty replication message")
	}
	switch body[0] {
	case 'w':
		if len(body) < dataHeader {
			return false, malformed(fmt.Sprintf("a data message of %d bytes", len(body)))
		}
		s.raw.Messages = append(s.raw.Messages, message.RawMessage{
			Start:      lsn.LSN(binary.BigEndian.Uint64(body[1:])),
			End:        lsn.LSN(binary.BigEndian.Uint64(body[9:])),
			ServerTime: serverTime(body[17:]),
			Data:       body[dataHeader:len(body):len(body)],
		})
		s.bytes += int64(len(body) - dataHeader)
		return false, nil
	case 'k':
		if len(body) != keepaliveSize {
			return false, malformed(fmt.Sprintf("a keepalive of %d bytes", len(body)))
		}
		asked = body[17] != 0
		s.raw.Messages = append(s.raw.Messages, message.RawMessage{
			Keepalive:      true,
			ReplyRequested: asked,
			End:            lsn.LSN(binary.BigEndian.Uint64(body[1:])),
			ServerTime:     serverTime(body[9:]),
		})
		return asked, nil
	}
	return false, malformed(fmt.Sprintf("a replication message of unknown type %q", body[0]))
}

func serverTime(b []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b)) + postgresEpoch).UTC()
}

// other handles frames that carry no replication message: nil for those that mean nothing to us.
func other(kind byte, body []byte) error {
	switch kind {
	case 'N', 'S', 'A': // notice, parameter status, notification
		return nil
	case 'E':
		return serverError(body)
	case 'c', 'C', 'Z':
		return errEnded
	}
	return malformed(fmt.Sprintf("a frame of unknown type %q", kind))
}

// serverError reads an ErrorResponse.
func serverError(body []byte) error {
	var response pgproto3.ErrorResponse
	if err := response.Decode(body); err != nil {
		return malformed("an error response that cannot be read: " + err.Error())
	}
	return pgconn.ErrorResponseToPgError(&response)
}

// status makes a standby status update. All three positions are set on purpose: Postgres takes a zero for "unknown", and
// what stands in flush is what lets the WAL go (promise 1). written only shows in pg_stat_replication.
func status(dst []byte, written, durable lsn.LSN, now time.Time, replyRequested bool) []byte {
	dst = append(dst, 'd')
	dst = binary.BigEndian.AppendUint32(dst, 4+34)
	dst = append(dst, 'r')
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(written, durable)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(durable))
	dst = binary.BigEndian.AppendUint64(dst, uint64(durable))
	dst = binary.BigEndian.AppendUint64(dst, uint64(now.UnixMicro()-postgresEpoch))
	if replyRequested {
		return append(dst, 1)
	}
	return append(dst, 0)
}
