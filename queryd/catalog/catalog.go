// Package catalog makes the relations of pg_catalog, information_schema and streambed that describe a lake's tables to
// Postgres clients. Their shapes, and the rows that are the same everywhere, are Postgres' own (data/, checked against a
// real server); what has no meaning here is an empty relation of the right shape.
package catalog

import (
	"embed"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/streambed/streambed/formats/types"
)

//go:embed functions.txt
var functionFile embed.FS

//go:embed data
var data embed.FS

// Column is a column of a catalog relation.
type Column struct {
	Name string
	// Type is the Postgres type's name, NotNull its constraint.
	Type    string
	NotNull bool
}

// Relation is a relation with its rows: values are nil, string, bool, int64, uint32, float64, []string, []uint32 or []int64
// as the column's type asks.
type Relation struct {
	Schema, Name string
	Kind         byte
	OID          uint32
	Columns      []Column
	Rows         [][]any
}

// The OIDs of the schemas that every database has.
const (
	SchemaPgCatalog   = 11
	SchemaPublic      = 2200
	SchemaInformation = 13_200
	SchemaStreambed   = 13_201
	ownerOID          = 10
	databaseOID       = 5
)

// shapes are Postgres' own relations, in order.
var shapes = readShapes()

func readShapes() []*Relation {
	var list []*Relation
	for _, row := range lines("relations.tsv") {
		last := len(list) - 1
		if last < 0 || list[last].Schema != row[0] || list[last].Name != row[1] {
			oid, _ := strconv.ParseUint(row[3], 10, 32)
			list = append(list, &Relation{Schema: row[0], Name: row[1], Kind: row[2][0], OID: uint32(oid)})
			last++
		}
		list[last].Columns = append(list[last].Columns, Column{Name: row[4], Type: row[5], NotNull: row[6] == "t"})
	}
	return list
}

func lines(file string) [][]string {
	content, err := data.ReadFile("data/" + file)
	if err != nil {
		return nil
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
		if line != "" {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	return rows
}

// duckTypes are the engine's types of Postgres' catalog types; all others are text.
var duckTypes = map[string]string{
	"oid": "UINTEGER", "xid": "UINTEGER", "regproc": "UINTEGER", "regtype": "UINTEGER", "bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT",
	"cardinal_number": "INTEGER", "float4": "FLOAT", "float8": "DOUBLE", "numeric": "DOUBLE", "timestamptz": "TIMESTAMP WITH TIME ZONE", "time_stamp": "TIMESTAMP WITH TIME ZONE",
	"interval": "INTERVAL", "_text": "VARCHAR[]", "_name": "VARCHAR[]", "_oid": "UINTEGER[]", "_regtype": "UINTEGER[]", "_char": "VARCHAR[]", "_aclitem": "VARCHAR[]",
	"_int2": "SMALLINT[]", "int2vector": "SMALLINT[]", "oidvector": "UINTEGER[]", "_float4": "FLOAT[]", "_float8": "DOUBLE[]", "_bool": "BOOLEAN[]", "bytea": "BLOB",
	"timestamp": "TIMESTAMP",
}

// DuckType gives the engine's type of a column.
func (c *Column) DuckType() string {
	if t := duckTypes[c.Type]; t != "" {
		return t
	}
	return "VARCHAR"
}

// Source gives the type that clients are told where it is not what the engine's type says; nil where it is.
func (c *Column) Source() *types.Postgres {
	switch c.Type {
	case "name", "sql_identifier":
		return nameType
	case "int2vector":
		return vectorType
	case "oidvector":
		return oidVectorType
	}
	return nil
}

var (
	nameType      = &types.Postgres{OID: types.OIDName, Typmod: -1, Name: "name", Schema: "pg_catalog", Class: 'b'}
	vectorType    = &types.Postgres{OID: types.OIDInt2Vector, Typmod: -1, Name: "int2vector", Schema: "pg_catalog", Class: 'b'}
	oidVectorType = &types.Postgres{OID: types.OIDOIDVector, Typmod: -1, Name: "oidvector", Schema: "pg_catalog", Class: 'b'}
)

// stableOID makes an OID of names: the same in every process and at every checkpoint, above those of the system.
func stableOID(taken map[uint32]bool, parts ...string) uint32 {
	h := fnv.New32a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	const first = 100_000
	oid := first + h.Sum32()%(1<<31-first)
	for taken[oid] {
		oid++
	}
	taken[oid] = true
	return oid
}
