package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// failpoints lets tests kill the daemon at a named point: STREAMBED_FAILPOINT="swap done:3" ends the process with
// SIGKILL, as a crash would, when the point is reached for the third time. Without the variable there is none.
func failpoints(env []string) (func(point string), error) {
	var text string
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "STREAMBED_FAILPOINT="); ok {
			text = value
		}
	}
	if text == "" {
		return nil, nil
	}
	name, times, counted := strings.Cut(text, ":")
	n := int64(1)
	if counted {
		var err error
		if n, err = strconv.ParseInt(times, 10, 64); err != nil || n < 1 {
			return nil, usage(fmt.Errorf("STREAMBED_FAILPOINT is %q; write the name of a point, and :N for the N-th time", text))
		}
	}
	var reached atomic.Int64
	return func(point string) {
		if point == name && reached.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way: nothing more may happen
		}
	}, nil
}
