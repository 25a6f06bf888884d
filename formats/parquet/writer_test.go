package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats/types"
)

func TestTheWriterReleasesItsBuffers(t *testing.T) {
	fields := allFields()
	rec := randomRecord(fields, 100, 4)
	checked := memory.NewCheckedAllocator(memory.DefaultAllocator)
	var out bytes.Buffer
	w, err := NewWriter(&out, fields, Options{Allocator: checked})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	checked.AssertSize(t, 0)
}

// failingWriter fails after some bytes.
type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestAFailedWriteIsAnErrorForGood(t *testing.T) {
	fields := allFields()
	rec := randomRecord(fields, 200, 4)
	whole, _ := write(t, fields, Options{RowGroupRows: 100}, rec)
	for _, left := range []int{0, 10, len(whole) / 2, len(whole) - 1} {
		w, err := NewWriter(&failingWriter{left}, fields, Options{RowGroupRows: 100})
		if err != nil {
			if !errors.Is(err, errBroken) {
				t.Errorf("after %d bytes: %v", left, err)
			}
			continue
		}
		writeErr := w.Write(rec)
		_, _, _, closeErr := w.Close()
		if closeErr == nil || !errors.Is(closeErr, errBroken) {
			t.Errorf("after %d bytes: Write gives %v and Close %v", left, writeErr, closeErr)
		}
	}
}

func TestAnotherSchemaIsRefused(t *testing.T) {
	fields, _ := column1(t, types.Int, func(array.Builder) {})
	_, other := column1(t, types.Long, func(b array.Builder) { b.AppendNull() })
	w, err := NewWriter(io.Discard, fields, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(other); err == nil {
		t.Error("a record of another schema is written")
	}
	if _, err := NewWriter(io.Discard, nil, Options{}); err == nil {
		t.Error("a file without columns is begun")
	}
}

func TestWrittenEstimatesTheFileSize(t *testing.T) {
	fields := allFields()
	var out bytes.Buffer
	w, err := NewWriter(&out, fields, Options{RowGroupRows: 2000})
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for i := range uint64(20) {
		if err := w.Write(randomRecord(fields, 500, i)); err != nil {
			t.Fatal(err)
		}
		if w.Written() < last {
			t.Errorf("Written falls from %d to %d", last, w.Written())
		}
		last = w.Written()
	}
	if w.Rows() != 10000 {
		t.Errorf("Rows is %d", w.Rows())
	}
	_, size, _, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if ratio := float64(last) / float64(size); ratio < 0.7 || ratio > 1.3 {
		t.Errorf("Written said %d of a file of %d bytes", last, size)
	}
}

func TestRowGroupsAreBoundedInBytes(t *testing.T) {
	fields, rec := column1(t, types.String, func(b array.Builder) {
		for range 100 {
			b.(*array.StringBuilder).Append(strings.Repeat("x", 10000))
		}
	})
	data, _ := write(t, fields, Options{RowGroupBytes: 100000}, rec, rec)
	f := open(t, data)
	if groups := len(f.starts) - 1; groups < 18 || groups > 25 {
		t.Errorf("2 MB of rows make %d row groups of 100 kB", groups)
	}
	if got := fmt.Sprint(f.Rows()); got != "200" {
		t.Errorf("the file has %s rows", got)
	}
}
