//go:build !linux

package main

import "syscall"

// endWithParent keeps the terminal's Ctrl-C from a child: the demo stops it.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
