package queryd

import (
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/streambed/streambed/queryd/duck"
	"github.com/streambed/streambed/queryd/sqltext"
	"github.com/streambed/streambed/queryd/values"
)

// copyOut sends a query's rows as COPY TO STDOUT does.
func (r *running) copyOut(ctx context.Context) error {
	n, q, o := r.session, r.rows.(*query), r.copyOptions
	if err := q.start(ctx); err != nil {
		return err
	}
	format := int16(pgproto3.TextFormat)
	if o.Format == sqltext.CopyBinary {
		format = pgproto3.BinaryFormat
	}
	q.prepare([]int16{format})
	codes := make([]uint16, len(q.described))
	for i := range codes {
		codes[i] = uint16(format)
	}
	n.conn.Send(&pgproto3.CopyOutResponse{OverallFormat: byte(format), ColumnFormatCodes: codes})
	w := &copyWriter{options: o, encoders: q.encoders}
	if o.Format == sqltext.CopyBinary {
		w.pending = append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)
	}
	if o.Header {
		n.conn.Send(&pgproto3.CopyData{Data: w.header(q.described)})
	}
	sent, _, err := q.each(ctx, 0, func(chunk *duck.Chunk, row int) error {
		return n.conn.Append(func(dst []byte) []byte { return w.row(dst, chunk, row) })
	})
	if err != nil {
		return err
	}
	r.sent = sent
	if o.Format == sqltext.CopyBinary {
		n.conn.Send(&pgproto3.CopyData{Data: append(w.pending, 0xff, 0xff)})
	}
	n.conn.Send(&pgproto3.CopyDone{})
	return nil
}

// copyWriter writes rows as CopyData messages.
type copyWriter struct {
	options  sqltext.CopyOptions
	encoders []values.Encoder
	scratch  []byte
	// pending goes before the next row, in the same message: as from Postgres, the binary format's header does not come
	// alone, which DuckDB's scanner relies on.
	pending []byte
}

func (w *copyWriter) header(columns []column) []byte {
	var line []byte
	for i, c := range columns {
		if i > 0 {
			line = append(line, w.options.Delimiter)
		}
		line = w.field(line, []byte(c.name))
	}
	return append(line, '\n')
}

func (w *copyWriter) row(dst []byte, chunk *duck.Chunk, row int) []byte {
	start := len(dst)
	dst = append(append(dst, 'd', 0, 0, 0, 0), w.pending...)
	w.pending = nil
	if w.options.Format == sqltext.CopyBinary {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(w.encoders)))
		for i, encode := range w.encoders {
			dst = values.AppendSized(dst, &chunk.Columns[i], row, encode)
		}
	} else {
		for i, encode := range w.encoders {
			if i > 0 {
				dst = append(dst, w.options.Delimiter)
			}
			if chunk.Columns[i].Null(row) {
				dst = append(dst, w.options.Null...)
				continue
			}
			w.scratch = encode(w.scratch[:0], &chunk.Columns[i], row)
			dst = w.field(dst, w.scratch)
		}
		dst = append(dst, '\n')
	}
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	return dst
}

func (w *copyWriter) field(dst, text []byte) []byte {
	if w.options.Format == sqltext.CopyCSV {
		return w.csv(dst, text)
	}
	for _, c := range text {
		switch c {
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\v':
			dst = append(dst, '\\', 'v')
		case '\\', w.options.Delimiter:
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// csv quotes what could be taken for something else: the null string, delimiters, quotes, line ends, and a lone \.
func (w *copyWriter) csv(dst, text []byte) []byte {
	o := w.options
	quote := o.ForceQuote || string(text) == o.Null || len(w.encoders) == 1 && string(text) == `\.`
	for _, c := range text {
		quote = quote || c == o.Delimiter || c == o.Quote || c == '\n' || c == '\r'
	}
	if !quote {
		return append(dst, text...)
	}
	dst = append(dst, o.Quote)
	for _, c := range text {
		if c == o.Quote || c == o.Escape {
			dst = append(dst, o.Escape)
		}
		dst = append(dst, c)
	}
	return append(dst, o.Quote)
}
