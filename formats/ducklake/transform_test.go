package ducklake_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/ducklake"
	"github.com/streambed/streambed/formats/types"
)

// TestTransformsAreDuckDBs compares the partition values of every type with DuckDB's own reckoning.
func TestTransformsAreDuckDBs(t *testing.T) {
	t.Parallel()
	expression := map[string]string{"identity": "CAST(%s AS VARCHAR)", "bucket": "(murmur3_32(%s) & 2147483647) % 1000"}
	for _, part := range []string{"year", "month", "day", "hour"} {
		expression[part] = part + "(%s)"
	}
	columns := everyType
	schema := typedSchema(t, columns, false)
	table := func(column, transform string) formats.TableName {
		return formats.TableName{Schema: transform, Table: column}
	}
	e := newEnv(t, func(cfg *ducklake.Config) {
		cfg.Arrangements = map[formats.TableName]formats.Arrangement{}
		for _, c := range columns {
			for transform := range expression {
				cfg.Arrangements[table(c.name, transform)] = formats.Arrangement{PartitionBy: []formats.Transform{{Name: transform, Width: 1000, Column: c.name}}}
			}
		}
	})
	ref := e.lake.NewTable(formats.TableName{Schema: "public", Table: "typed"})
	e.commit(formats.TableChange{Table: ref, Create: true, Publish: true, Schema: schema, Add: []formats.DataFile{writeTyped(e, ref, schema, columns)}})
	d := newDuckDB(t, e.cfg)
	compared := map[string]int{}
	for i, c := range columns {
		record := typedRecord(t, schema.Columns[i+1], c)
		for transform, sql := range expression {
			arranger := e.lake.Arranger(table(c.name, transform), schema)
			if arranger == nil {
				continue
			}
			files, err := arranger.Arrange(record)
			if err != nil || len(files) != 3 {
				t.Fatalf("%s of %s makes %d files: %v", transform, c.name, len(files), err)
			}
			for _, f := range files {
				var fields []struct{ Value *string }
				if f.Partition == "" && transform == "identity" && len(c.texts[f.Rows[0]]) > 80 {
					continue // no folder can have such a name
				}
				if err := json.Unmarshal([]byte(f.Partition), &fields); err != nil {
					t.Fatalf("%s of %s: %v", transform, c.name, err)
				}
				got := fields[len(fields)-1].Value
				want := d.query("SELECT " + strings.ReplaceAll(sql, "%s", ident(c.name)) + " FROM lake.public.typed WHERE id = " + strconv.Itoa(f.Rows[0]+1))[0][0]
				if (got == nil) != (want == nil) || got != nil && *got != *want {
					t.Errorf("%s of %s %q is %s, DuckDB has %s", transform, c.name, append(c.texts[:], "NULL")[f.Rows[0]], show(got), show(want))
				}
				compared[transform]++
			}
		}
		record.Release()
	}
	if compared["identity"] < 45 || compared["bucket"] < 24 || compared["year"] < 9 || compared["hour"] < 6 {
		t.Errorf("too little was compared: %v", compared)
	}
}

// typedRecord has one column with the two values of a type, and NULL.
func typedRecord(t *testing.T, column formats.Column, c values) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, types.ArrowSchema([]types.Field{column.Field}))
	defer b.Release()
	codec, err := types.NewCodec(c.pg, column.Type, types.Options{}, false)
	for _, text := range c.texts {
		if err == nil {
			err = codec.Append(b.Field(0), false, []byte(text))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Field(0).AppendNull()
	return b.NewRecordBatch()
}

func show(text *string) string {
	if text == nil {
		return "NULL"
	}
	return strconv.Quote(*text)
}
