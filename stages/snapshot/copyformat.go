package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/streambed/streambed/stages/message"
)

// copySignature begins binary COPY data (documentation of COPY, "Binary Format").
var copySignature = []byte("PGCOPY\n\377\r\n\000")

// skipHeader gives what follows the header of binary COPY data.
func skipHeader(data []byte) ([]byte, error) {
	const fixed = 11 + 4 + 4
	if len(data) < fixed || !bytes.Equal(data[:11], copySignature) {
		return nil, fmt.Errorf("%w: no signature", errCopyFormat)
	}
	extension := binary.BigEndian.Uint32(data[15:])
	if uint64(len(data)-fixed) < uint64(extension) {
		return nil, fmt.Errorf("%w: header extension of %d bytes", errCopyFormat, extension)
	}
	return data[fixed+int(extension):], nil
}

// parseBinary reads one row of binary COPY data; end tells that it is the trailer. The values point into data.
func parseBinary(data []byte, to []message.Value) (values []message.Value, end bool, err error) {
	if len(data) < 2 {
		return to, false, fmt.Errorf("%w: row of %d bytes", errCopyFormat, len(data))
	}
	n := int16(binary.BigEndian.Uint16(data))
	data = data[2:]
	if n == -1 {
		return to, true, nil
	}
	for range int(n) {
		if len(data) < 4 {
			return to, false, fmt.Errorf("%w: row ends early", errCopyFormat)
		}
		size := int32(binary.BigEndian.Uint32(data))
		data = data[4:]
		if size == -1 {
			to = append(to, message.Value{Kind: 'n'})
			continue
		}
		if size < 0 || int(size) > len(data) {
			return to, false, fmt.Errorf("%w: value of %d bytes", errCopyFormat, size)
		}
		to = append(to, message.Value{Kind: 'b', Data: data[:size:size]})
		data = data[size:]
	}
	if len(data) != 0 || n < 0 {
		return to, false, fmt.Errorf("%w: %d bytes after the row", errCopyFormat, len(data))
	}
	return to, false, nil
}

// parseText reads one row of text COPY data (documentation of COPY, "Text Format"). The values point into data or
// scratch, which is returned grown.
func parseText(data []byte, to []message.Value, scratch []byte) ([]message.Value, []byte, error) {
	if len(data) == 0 || data[len(data)-1] != '\n' {
		return to, scratch, fmt.Errorf("%w: row without an end", errCopyFormat)
	}
	data = data[:len(data)-1]
	if cap(scratch) < len(data) { // values point into it: it must not move
		scratch = make([]byte, 0, len(data))
	}
	for more := true; more; {
		var field []byte
		field, data, more = bytes.Cut(data, []byte{'\t'})
		if len(field) == 2 && field[0] == '\\' && field[1] == 'N' {
			to = append(to, message.Value{Kind: 'n'})
			continue
		}
		if bytes.IndexByte(field, '\\') < 0 {
			to = append(to, message.Value{Kind: 't', Data: field})
			continue
		}
		from := len(scratch)
		var err error
		if scratch, err = unescape(scratch, field); err != nil {
			return to, scratch, err
		}
		to = append(to, message.Value{Kind: 't', Data: scratch[from:len(scratch):len(scratch)]})
	}
	return to, scratch, nil
}

// unescape appends a text value with its backslash sequences resolved. COPY TO sends only the one-letter ones.
func unescape(to, field []byte) ([]byte, error) {
	for i := 0; i < len(field); i++ {
		c := field[i]
		if c != '\\' {
			to = append(to, c)
			continue
		}
		if i++; i == len(field) {
			return to, fmt.Errorf("%w: lone backslash", errCopyFormat)
		}
		switch c = field[i]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'v':
			c = '\v'
		}
		to = append(to, c)
	}
	return to, nil
}
