// Command streambedd follows a Postgres database and keeps a lake of open tables equal to it. With no sub-command it
// runs the pipeline; the others look at it and look after it. Each sub-command has a file of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Exit codes. Zero means that all is well.
const (
	// exitFailed: what was asked for could not be done.
	exitFailed = 1
	// exitUsage: the command line or the configuration is wrong; trying again without a change is of no use.
	exitUsage = 2
	// exitFindings: it was done, and found something that needs attention.
	exitFindings = 3
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as one of the command line or the configuration.
func usage(err error) error { return &exitError{exitUsage, err} }

// findings makes an error of something that was found, as opposed to something that failed.
func findings(format string, args ...any) error {
	return &exitError{exitFindings, fmt.Errorf(format, args...)}
}

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code. The last line on stderr of a failed run says why.
func run(args, env []string, stdout, stderr io.Writer) int {
	cmd := newRoot(&program{env: env, out: stdout, errOut: stderr})
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "streambedd: %v\n", err)
	var coded *exitError
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitFailed
}
