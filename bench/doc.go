// Command bench measures the whole daemon: it starts a Postgres and a store of its own, drives the real streambedd built
// from this tree, and compares table formats and modes on the same changes in one run.
//
//	go run ./bench -workloads trickle -targets dv,ducklake,cow
//
// For each pair of workload and target it tells the seconds from the first commit at the source until the lake holds the
// last, the daemon's CPU and memory, what went to the store, and how long queries take afterwards; and it compares all
// rows with the source: a benchmark that writes wrong rows fails. A new workload is a file with its own value in
// workloads, a new format one with its value in targets.
package main
