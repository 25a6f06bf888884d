package main

import "syscall"

// endWithParent lets a child end when the demo is killed, and keeps the terminal's Ctrl-C from it: the demo stops it.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
