package parquet

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/streambed/streambed/formats/types"
)

// readAll reads a file that may be damaged, by both ways; only a panic is a failure.
func readAll(data []byte, fields []types.Field) {
	ctx := context.Background()
	f, err := Open(ctx, &bytesObject{Reader: bytes.NewReader(data)})
	if err != nil {
		return
	}
	defer f.Close()
	for batch, err := range f.Batches(ctx, fields) {
		if err == nil {
			batch.Release()
		}
	}
	if batch, err := f.Take(ctx, fields, []int64{0, 7}); err == nil {
		batch.Release()
	}
}

func TestDamagedPagesDoNotPanic(t *testing.T) {
	fields := allFields()
	data, _ := write(t, fields, Options{RowGroupRows: 40}, randomRecord(fields, 100, 1))
	r := rand.New(rand.NewPCG(5, 5))
	for range 150 {
		damaged := bytes.Clone(data)
		for range r.IntN(3) + 1 {
			damaged[r.IntN(len(damaged))] ^= byte(1 << r.IntN(8))
		}
		readAll(damaged, fields)
	}
}
