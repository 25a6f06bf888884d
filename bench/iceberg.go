package main

// icebergTargets are Iceberg's modes: rewritten files, equality deletes, deletion vectors.
var icebergTargets = []target{
	{"cow", "format: iceberg, mode: cow"},
	{"mor", "format: iceberg, mode: mor"},
	{"dv", "format: iceberg, mode: dv"},
}
