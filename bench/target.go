package main

// target is one way of keeping a lake.
type target struct {
	name string
	// lake are the keys of the configuration below lake that make it so.
	lake string
}

// targets are all there are, in the order of the report.
var targets = append(icebergTargets, duckLakeTarget)
