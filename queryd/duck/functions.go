package duck

/*
#include "live.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// IntervalFunction is the SQL name of the scalar function that reads Postgres' ISO 8601 text of an interval.
const IntervalFunction = "streambed_interval"

// registerFunctions makes the scalar functions in C known to the connection's database.
func registerFunctions(conn bindings.Connection) error {
	for _, f := range []struct {
		name   string
		code   unsafe.Pointer
		result bindings.Type
		params []bindings.Type
	}{
		{LiveFunction, C.streambed_live(), bindings.TypeBoolean, []bindings.Type{bindings.TypeUInteger, bindings.TypeUBigInt, bindings.TypeBigInt}},
		{LiveInOneFunction, C.streambed_live_in_one(), bindings.TypeBoolean, []bindings.Type{bindings.TypeUInteger, bindings.TypeBigInt}},
		{IntervalFunction, C.streambed_interval(), bindings.TypeInterval, []bindings.Type{bindings.TypeVarchar}},
	} {
		if err := register(conn, f.name, f.code, f.result, f.params); err != nil {
			return err
		}
	}
	return nil
}

func register(conn bindings.Connection, name string, code unsafe.Pointer, result bindings.Type, params []bindings.Type) error {
	f := bindings.CreateScalarFunction()
	defer bindings.DestroyScalarFunction(&f)
	bindings.ScalarFunctionSetName(f, name)
	for _, t := range params {
		logical := bindings.CreateLogicalType(t)
		bindings.ScalarFunctionAddParameter(f, logical)
		bindings.DestroyLogicalType(&logical)
	}
	logical := bindings.CreateLogicalType(result)
	defer bindings.DestroyLogicalType(&logical)
	bindings.ScalarFunctionSetReturnType(f, logical)
	bindings.ScalarFunctionSetFunction(f, code)
	if bindings.RegisterScalarFunction(conn, f) == bindings.StateError {
		return fmt.Errorf("DuckDB did not accept the function %s", name)
	}
	return nil
}
