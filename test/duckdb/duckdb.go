// Package duckdb runs DuckDB with its own ducklake extension for tests, as a process of Python: what reads our DuckLake
// catalogs must be code that is not ours.
package duckdb

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Version is that of DuckDB and its extensions on PyPI.
const Version = "1.5.5"

//go:embed reader.py
var script string

// Python gives a Python that has DuckDB with its ducklake extension, in a virtual environment of the repository's cache
// folder that is made when missing, which takes up to minutes. An error means that it cannot be had here.
var Python = sync.OnceValues(func() (string, error) {
	_, source, _, _ := runtime.Caller(0)
	root, err := filepath.Abs(filepath.Join(filepath.Dir(source), "..", ".."))
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, ".cache", "ducklake-"+Version)
	program := filepath.Join(folder, "bin", "python")
	if exec.Command(program, "-c", "import duckdb_extension_ducklake, duckdb_extension_sqlite_scanner, duckdb_extension_postgres_scanner").Run() == nil {
		return program, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", folder},
		{program, "-m", "pip", "install", "-q", "duckdb==" + Version, "duckdb-extension-ducklake==" + Version,
			"duckdb-extension-sqlite-scanner==" + Version, "duckdb-extension-postgres-scanner==" + Version},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			os.RemoveAll(folder)
			return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return program, nil
})

// Process is a running DuckDB. It is not safe for concurrent use.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start attaches a new DuckDB to a DuckLake catalog as "lake", writable and without inlining of rows. The catalog is as in
// ducklake.Config: "sqlite:///path" or a Postgres URL. The caller closes it.
func Start(catalog string) (*Process, error) {
	program, err := Python()
	if err != nil {
		return nil, fmt.Errorf("DuckDB's own ducklake reader cannot be had: %w", err)
	}
	attach := "postgres:" + catalog
	if path, ok := strings.CutPrefix(catalog, "sqlite://"); ok {
		attach = "sqlite:" + path
	}
	p := &Process{cmd: exec.Command(program, "-c", script, attach)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// Query runs a statement and gives its rows as text; NULL is nil. It blocks until DuckDB has answered.
func (p *Process) Query(statement string) ([][]*string, error) {
	line, err := json.Marshal(map[string]string{"sql": statement})
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("DuckDB ended before %s: %w", statement, err)
	}
	text, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("DuckDB ended at %s: %w", statement, err)
	}
	var answer struct {
		Rows  [][]*string
		Error string
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Rows, nil
}

// Close ends the process.
func (p *Process) Close() error {
	_ = p.in.Close()
	return p.cmd.Wait()
}
