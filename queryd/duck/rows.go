package duck

import (
	"context"
	"unsafe"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// Rows is a result that is computed as it is read.
type Rows struct {
	conn   *Conn
	result bindings.Result
	types  []Type
	chunk  bindings.DataChunk
	view   Chunk
}

// Chunk is a piece of a result, at most a few thousand rows. It is valid until the next call of Rows.
type Chunk struct {
	Rows    int
	Columns []Vector
}

// Vector is one column of a chunk, or the children of one. Its memory is DuckDB's.
type Vector struct {
	Type *Type
	// Children are the elements of a LIST or ARRAY, the members of a STRUCT, the entries (a struct) of a MAP.
	Children []Vector
	data     unsafe.Pointer
	validity unsafe.Pointer
}

// Types gives the result's column types.
func (r *Rows) Types() []Type { return r.types }

// Next gives the next rows, nil at the end. It blocks until DuckDB has computed them or ctx ends.
func (r *Rows) Next(ctx context.Context) (*Chunk, error) {
	bindings.DestroyDataChunk(&r.chunk)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r.conn.guard(ctx, func() { r.chunk = bindings.FetchChunk(r.result) })
	if r.chunk.Ptr == nil {
		if message := bindings.ResultError(&r.result); message != "" {
			return nil, ended(ctx, parseError(message))
		}
		return nil, nil
	}
	r.view.Rows = int(bindings.DataChunkGetSize(r.chunk))
	if r.view.Rows == 0 {
		return nil, nil
	}
	if r.view.Columns == nil {
		r.view.Columns = make([]Vector, len(r.types))
	}
	for i := range r.types {
		fill(&r.view.Columns[i], &r.types[i], bindings.DataChunkGetVector(r.chunk, bindings.IdxT(i)))
	}
	return &r.view, nil
}

// Close frees the result; unread rows are not computed.
func (r *Rows) Close() {
	bindings.DestroyDataChunk(&r.chunk)
	bindings.DestroyResult(&r.result)
}

func fill(v *Vector, t *Type, vector bindings.Vector) {
	v.Type = t
	v.data = bindings.VectorGetData(vector)
	v.validity = bindings.VectorGetValidity(vector)
	if len(v.Children) != len(t.Children) && t.ID != bindings.TypeMap {
		v.Children = make([]Vector, len(t.Children))
	}
	switch t.ID {
	case bindings.TypeList:
		fill(&v.Children[0], &t.Children[0], bindings.ListVectorGetChild(vector))
	case bindings.TypeArray:
		fill(&v.Children[0], &t.Children[0], bindings.ArrayVectorGetChild(vector))
	case bindings.TypeStruct:
		for i := range t.Children {
			fill(&v.Children[i], &t.Children[i], bindings.StructVectorGetChild(vector, bindings.IdxT(i)))
		}
	case bindings.TypeMap:
		// A map is a list of (key, value) structs; t.Children are the key's and the value's type.
		if v.Children == nil {
			v.Children = make([]Vector, 2)
		}
		entries := bindings.ListVectorGetChild(vector)
		for i := range t.Children {
			fill(&v.Children[i], &t.Children[i], bindings.StructVectorGetChild(entries, bindings.IdxT(i)))
		}
	}
}

// Null tells whether the row's value is NULL.
func (v *Vector) Null(row int) bool {
	if v.validity == nil {
		return false
	}
	word := *(*uint64)(unsafe.Add(v.validity, uintptr(row>>6)*8))
	return word>>(uint(row)&63)&1 == 0
}

// At reads a fixed-size value; T must have the size of the vector's physical type.
func At[T any](v *Vector, row int) T {
	var zero T
	return *(*T)(unsafe.Add(v.data, uintptr(row)*unsafe.Sizeof(zero)))
}

// Bytes gives a string's, blob's or bit string's bytes, in DuckDB's memory.
func (v *Vector) Bytes(row int) []byte {
	p := unsafe.Add(v.data, uintptr(row)*16)
	n := *(*uint32)(p)
	if n <= 12 {
		return unsafe.Slice((*byte)(unsafe.Add(p, 4)), n)
	}
	return unsafe.Slice(*(**byte)(unsafe.Add(p, 8)), n)
}

// Entries gives the range of a LIST's, MAP's or ARRAY's elements in its children.
func (v *Vector) Entries(row int) (from, to int) {
	if v.Type.ID == bindings.TypeArray {
		return row * v.Type.Size, (row + 1) * v.Type.Size
	}
	type entry struct{ offset, length uint64 }
	e := At[entry](v, row)
	return int(e.offset), int(e.offset + e.length)
}
