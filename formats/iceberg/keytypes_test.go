package iceberg_test

import (
	"fmt"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/parquet"
	"github.com/streambed/streambed/formats/storage"
	"github.com/streambed/streambed/formats/types"
)

// texts are keys that differ in what must not be folded: case, blanks, zeros, encodings, length beyond the bounds'.
var texts = []string{"", " ", "a", "A", "a ", "a\x00", "a\x00b", "1.0", "1.00", "\u00e9", "e\u0301", "\U0001F600", "long long long long long long key 1", "long long long long long long key 2", "true", "NULL"}

// keyTypes are the types of a key with values that are all different, in Postgres' text form.
var keyTypes = []struct {
	source types.Postgres
	values []string
}{
	{types.Postgres{OID: 21, Name: "int2"}, []string{"-32768", "-1", "0", "1", "32767"}},
	{types.Postgres{OID: 20, Name: "int8"}, []string{"-9223372036854775808", "-1", "0", "255", "256", "9223372036854775807"}},
	{types.Postgres{OID: 1700, Typmod: 10<<16 | 2 + 4, Name: "numeric"}, []string{"-12345678.90", "-0.01", "0.00", "0.01", "1.10", "99999999.99"}},
	{types.Postgres{OID: 1700, Typmod: 38<<16 | 4, Name: "numeric"}, []string{"-99999999999999999999999999999999999999", "-1", "0", "18446744073709551616", "99999999999999999999999999999999999999"}},
	{types.Postgres{OID: 1700, Name: "numeric"}, []string{"1", "1.0", "1.00", "NaN", "-0.5", "1e0"}},
	{types.Postgres{OID: 25, Name: "text"}, texts},
	{types.Postgres{OID: 17, Name: "bytea"}, []string{`\x`, `\x00`, `\x0001`, `\xff`, `\xff00`}},
	{types.Postgres{OID: 2950, Name: "uuid"}, []string{"00000000-0000-0000-0000-000000000000", "7fffffff-0000-0000-0000-000000000001", "80000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"}},
	{types.Postgres{OID: 1082, Name: "date"}, []string{"0001-01-01", "1969-12-31", "1970-01-01", "2026-02-28", "9999-12-31"}},
	{types.Postgres{OID: 1083, Name: "time"}, []string{"00:00:00", "12:34:56.789012", "23:59:59.999999"}},
	{types.Postgres{OID: 1114, Name: "timestamp"}, []string{"1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2026-02-28 12:34:56.000001", "2026-02-28 12:34:56.000002"}},
	{types.Postgres{OID: 1184, Name: "timestamptz"}, []string{"1969-12-31 23:59:59.999999+00", "2026-02-28 12:34:56.000001+00", "2026-02-28 12:34:56.000002+00"}},
	{types.Postgres{OID: 16, Name: "bool"}, []string{"f", "t"}},
}

// TestKeysOfEveryTypeAreDeleted deletes, for each type of a key, every other row by key, with files of its own for
// the deletes' bounds to meet or miss; iceberg-go's scanner and ours must both find the others.
func TestKeysOfEveryTypeAreDeleted(t *testing.T) {
	for i, k := range keyTypes {
		t.Run(fmt.Sprint(i, k.source.Name), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, mergeOnRead)
			k.source.Class = 'b'
			if k.source.Typmod == 0 {
				k.source.Typmod = -1
			}
			s := simpleSchema()
			s.Columns[0].Source, s.Columns[0].Type = k.source, types.Lake(k.source, types.Options{}, true)
			key := s.Columns[0].Field
			ref := e.lake.NewTable(formats.TableName{Schema: "public", Table: "t"})
			if !e.lake.DeletesByKey(ref.Name, s) {
				t.Fatal("no keys are asked for")
			}
			codec := must[*types.Codec](t)(types.NewCodec(k.source, key.Type, types.Options{}, true))
			create := formats.TableChange{Table: ref, Create: true, Publish: true, Schema: s}
			gone, keyed := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema([]types.Field{key})), map[string]*roaring.Bitmap{}
			left := map[string]int{}
			for half := range 2 {
				b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema(s.Fields()))
				row := uint32(0)
				dead := roaring.New()
				for v := half; v < len(k.values); v += 2 {
					if err := codec.Append(b.Field(0), false, []byte(k.values[v])); err != nil {
						t.Fatal(err)
					}
					b.Field(1).(*array.StringBuilder).Append(fmt.Sprint(v))
					if v%4 == half {
						dead.Add(row)
						encoded, err := codec.AppendKey(nil, false, []byte(k.values[v]))
						if err == nil { // as the pipeline does, which knows keys in this form alone
							_, err = types.AppendKeyTo(gone.Field(0), key.Type, encoded)
						}
						if err != nil {
							t.Fatal(err)
						}
					} else {
						left[fmt.Sprint(v)]++
					}
					row++
				}
				f := e.keyFile(ref, s.Fields(), b).DataFile
				keyed[f.Path] = dead
				create.Add = append(create.Add, f)
			}
			e.commit(create)
			e.commit(formats.TableChange{Table: ref, Deletes: keyed, Keyed: keyed, Keys: []formats.KeyFile{e.keyFile(ref, []types.Field{key}, gone)}})
			if got := e.content(ref); got != [4]int{2, 0, 1, 0} {
				t.Errorf("files by kind: %v", got)
			}
			stock, ours := map[string]int{}, map[string]int{}
			tb := must[arrow.Table](t)(e.stock(ref.Name).Scan().ToArrowTable(e.ctx))
			defer tb.Release()
			for r := array.NewTableReader(tb, 0); r.Next(); {
				for i := range int(r.RecordBatch().NumRows()) {
					stock[r.RecordBatch().Column(1).ValueStr(i)]++
				}
			}
			r := e.reader()
			plan := must[*formats.ScanPlan](t)(r.Plan(e.ctx, must[*formats.View](t)(r.Current(e.ctx)), ref.Name))
			for _, f := range plan.Files {
				e.values(f, s, ours)
			}
			if fmt.Sprint(ours) != fmt.Sprint(left) {
				t.Errorf("we read %v, want %v", ours, left)
			}
			if fmt.Sprint(stock) != fmt.Sprint(left) {
				t.Errorf("iceberg-go reads %v, want %v", stock, left)
			}
		})
	}
}

// values counts the values of the second column in a planned file.
func (e *env) values(f formats.ScanFile, s *formats.Schema, into map[string]int) {
	e.Helper()
	file := must[*parquet.File](e)(parquet.Open(e.ctx, must[storage.Object](e)(e.store.Open(e.ctx, f.Path))))
	defer file.Close()
	row := uint32(0)
	for batch, err := range file.Batches(e.ctx, s.Fields()) {
		if err != nil {
			e.Fatal(err)
		}
		for i := range int(batch.NumRows()) {
			if f.Deleted == nil || !f.Deleted.Contains(row) {
				into[batch.Column(1).ValueStr(i)]++
			}
			row++
		}
		batch.Release()
	}
}

// TestKeysThatIcebergDoesNotCompareGoByPosition: floating-point and nested ones.
func TestKeysThatIcebergDoesNotCompareGoByPosition(t *testing.T) {
	e := newEnv(t, mergeOnRead)
	ref := e.lake.NewTable(formats.TableName{Schema: "public", Table: "t"})
	for name, typ := range map[string]types.Type{"float8": {Kind: types.Double}, "float4": {Kind: types.Float},
		"int8[]": {Kind: types.List, Fields: []types.Field{{ID: 3, Name: "element", Type: types.Type{Kind: types.Long}}}}} {
		s := simpleSchema()
		s.Columns[0].Type = typ
		if e.lake.DeletesByKey(ref.Name, s) {
			t.Errorf("%s: deleted by key", name)
		}
	}
	s := simpleSchema()
	s.KeyKind, s.Key = formats.KeyFullRow, nil
	if e.lake.DeletesByKey(ref.Name, s) {
		t.Error("whole rows: deleted by key")
	}
}
