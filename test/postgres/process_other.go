//go:build !linux

package postgres

import "syscall"

// dieWithParent has no counterpart here; the reaper alone ends Postgres.
func dieWithParent(*syscall.SysProcAttr) {}
