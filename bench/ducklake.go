package main

// duckLakeTarget is DuckLake, which has one way to delete.
var duckLakeTarget = target{"ducklake", "format: ducklake"}
