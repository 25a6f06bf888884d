package postgres

import "syscall"

// dieWithParent asks the kernel for an immediate shutdown of Postgres when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
