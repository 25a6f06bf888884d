package parquet

import (
	"fmt"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/streambed/streambed/formats/types"
)

// projection turns what a file holds into the wanted fields.
type projection struct {
	fields   []types.Field
	schema   *arrow.Schema
	defaults map[int]arrow.Array
}

func newProjection(fields []types.Field, defaults map[int]arrow.Array) *projection {
	return &projection{fields: fields, schema: types.ArrowSchema(fields), defaults: defaults}
}

// project makes a batch of n rows; places are the columns of rec, -1 for those that are not in the file.
func (p *projection) project(rec arrow.RecordBatch, places []int, n int64) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, len(p.fields))
	defer releaseAll(columns)
	for i, f := range p.fields {
		var err error
		if places[i] < 0 {
			columns[i], err = p.missing(f, int(n))
		} else {
			columns[i], err = cast(rec.Column(places[i]), f.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read column %q: %w", f.Name, err)
		}
	}
	return array.NewRecordBatch(p.schema, columns, n), nil
}

// missing gives n times a field's default, or NULL.
func (p *projection) missing(f types.Field, n int) (arrow.Array, error) {
	one := p.defaults[f.ID]
	if one == nil || one.Len() != 1 || n == 0 {
		return array.MakeArrayOfNull(memory.DefaultAllocator, f.Type.Arrow(), n), nil
	}
	all, err := cast(one, f.Type)
	if err != nil {
		return nil, err
	}
	for all.Len() < n {
		twice, err := array.Concatenate([]arrow.Array{all, all}, memory.DefaultAllocator)
		all.Release()
		if err != nil {
			return nil, err
		}
		all = twice
	}
	defer all.Release()
	return array.NewSlice(all, 0, int64(n)), nil
}

// cast gives a as an array of exactly t's Arrow type: children are found by field id, names are t's, promoted types are
// converted. The caller releases the result.
func cast(a arrow.Array, t types.Type) (arrow.Array, error) {
	want := t.Arrow()
	switch t.Kind {
	case types.List, types.Map, types.Struct:
		return castNested(a, t, want)
	case types.Long:
		if from, ok := a.(*array.Int32); ok {
			b := array.NewInt64Builder(memory.DefaultAllocator)
			return convert(from, b, from.Int32Values(), func(v int32) { b.UnsafeAppend(int64(v)) }), nil
		}
	case types.Double:
		if from, ok := a.(*array.Float32); ok {
			b := array.NewFloat64Builder(memory.DefaultAllocator)
			return convert(from, b, from.Float32Values(), func(v float32) { b.UnsafeAppend(float64(v)) }), nil
		}
	case types.UUID:
		if from, ok := a.(*array.FixedSizeBinary); ok && from.DataType().(*arrow.FixedSizeBinaryType).ByteWidth == 16 {
			return array.NewExtensionArrayWithStorage(want.(arrow.ExtensionType), from), nil
		}
	case types.Decimal:
		from, ok := a.DataType().(*arrow.Decimal128Type)
		if ok && int(from.Scale) == t.Scale && int(from.Precision) <= t.Precision {
			return retype(a.Data(), want, nil), nil
		}
	}
	if !arrow.TypeEqual(a.DataType(), want) {
		return nil, fmt.Errorf("the file holds %s, which is not read as %s", a.DataType(), t)
	}
	a.Retain()
	return a, nil
}

// convert copies values into another type's builder, which it releases.
func convert[T int32 | float32](a arrow.Array, b array.Builder, values []T, put func(T)) arrow.Array {
	defer b.Release()
	b.Reserve(len(values))
	for i, v := range values {
		if a.IsNull(i) {
			b.AppendNull()
		} else {
			put(v)
		}
	}
	return b.NewArray()
}

// retype gives the same values another type of the same layout, and other children where they are not nil.
func retype(data arrow.ArrayData, want arrow.DataType, children []arrow.ArrayData) arrow.Array {
	if children == nil {
		children = data.Children()
	}
	d := array.NewData(want, data.Len(), data.Buffers(), children, data.NullN(), data.Offset())
	defer d.Release()
	return array.MakeFromData(d)
}

// castNested casts children whole, as the data holds them, so that offsets stay right.
func castNested(a arrow.Array, t types.Type, want arrow.DataType) (arrow.Array, error) {
	var children []arrow.Array
	defer func() { releaseAll(children) }()
	data := a.Data()
	switch a.(type) {
	case *array.List:
		if t.Kind != types.List {
			return nil, fmt.Errorf("the file holds a list, which is not read as %s", t)
		}
		element, err := castChild(data.Children()[0], t.Fields[0].Type)
		if err != nil {
			return nil, err
		}
		children = append(children, element)
	case *array.Map:
		if t.Kind != types.Map {
			return nil, fmt.Errorf("the file holds a map, which is not read as %s", t)
		}
		entries := data.Children()[0]
		pair := types.Type{Kind: types.Struct, Fields: t.Fields}
		made, err := castStruct(entries, pair, want.(*arrow.MapType).Elem(), true)
		if err != nil {
			return nil, err
		}
		children = append(children, made)
	case *array.Struct:
		if t.Kind != types.Struct {
			return nil, fmt.Errorf("the file holds a struct, which is not read as %s", t)
		}
		return castStruct(data, t, want, false)
	default:
		return nil, fmt.Errorf("the file holds %s, which is not read as %s", a.DataType(), t)
	}
	datas := make([]arrow.ArrayData, len(children))
	for i, c := range children {
		datas[i] = c.Data()
	}
	return retype(data, want, datas), nil
}

func castChild(data arrow.ArrayData, t types.Type) (arrow.Array, error) {
	child := array.MakeFromData(data)
	defer child.Release()
	return cast(child, t)
}

// castStruct finds a struct's fields by id, or by their order.
func castStruct(data arrow.ArrayData, t types.Type, want arrow.DataType, byOrder bool) (arrow.Array, error) {
	children := make([]arrow.Array, len(t.Fields))
	defer releaseAll(children)
	held := data.DataType().(*arrow.StructType)
	for i, f := range t.Fields {
		place := -1
		for j, h := range held.Fields() {
			if byOrder && i == j || !byOrder && fieldID(h) == f.ID {
				place = j
			}
		}
		if place < 0 {
			n := data.Len() + data.Offset()
			children[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type.Arrow(), n)
			continue
		}
		child, err := castChild(data.Children()[place], f.Type)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		children[i] = child
	}
	datas := make([]arrow.ArrayData, len(children))
	for i, c := range children {
		datas[i] = c.Data()
	}
	return retype(data, want, datas), nil
}

// fieldID gives a field's id; one that is on no field where it has none.
func fieldID(f arrow.Field) int {
	if at := f.Metadata.FindKey(types.FieldIDKey); at >= 0 {
		if id, err := strconv.Atoi(f.Metadata.Values()[at]); err == nil {
			return id
		}
	}
	return math.MinInt
}
