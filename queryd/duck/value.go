package duck

import bindings "github.com/duckdb/duckdb-go-bindings"

// Value is a parameter's value in C memory; Stmt.Bind frees it.
type Value struct{ value bindings.Value }

// The kinds of values.
func NullValue() Value { return Value{bindings.CreateNullValue()} }
func StringValue(s string) Value {
	return Value{bindings.CreateVarcharLength(s, bindings.IdxT(len(s)))}
}
func BoolValue(b bool) Value      { return Value{bindings.CreateBool(b)} }
func Int16Value(n int16) Value    { return Value{bindings.CreateInt16(n)} }
func Int32Value(n int32) Value    { return Value{bindings.CreateInt32(n)} }
func Int64Value(n int64) Value    { return Value{bindings.CreateInt64(n)} }
func FloatValue(f float32) Value  { return Value{bindings.CreateFloat(f)} }
func DoubleValue(f float64) Value { return Value{bindings.CreateDouble(f)} }
func BlobValue(b []byte) Value    { return Value{bindings.CreateBlob(b)} }
