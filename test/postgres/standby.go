package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// StartStandby makes a hot standby of a running server, in a temporary folder, and starts it; it streams from the primary
// through a physical slot named standby and sends feedback. The caller ends it with Close. It makes the base backup by
// itself, since not every folder of server binaries holds pg_basebackup.
func StartStandby(ctx context.Context, primary *Server) (*Server, error) {
	s := &Server{account: primary.account} // for its folder
	if err := s.makeFolder(); err != nil {
		return nil, err
	}
	err := backUp(ctx, primary, s.data())
	if err == nil {
		err = s.follow(primary)
	}
	if err == nil && s.account != nil {
		err = filepath.WalkDir(s.Dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, s.account.uid, s.account.gid))
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a standby: %w", err), os.RemoveAll(s.Dir))
	}
	started, err := Start(ctx, Options{Dir: s.Dir, bin: primary.Bin})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.Dir))
	}
	started.remove = true
	return started, nil
}

// follow writes what makes a copy of the primary's cluster its standby.
func (s *Server) follow(primary *Server) error {
	if err := os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, `primary_conninfo = 'host=127.0.0.1 port=%d user=postgres dbname=postgres'
primary_slot_name = 'standby'
hot_standby_feedback = on
wal_receiver_status_interval = 1
`, primary.Port)
	return errors.Join(err, f.Close())
}

// backUp copies a running server's cluster.
func backUp(ctx context.Context, s *Server, to string) error {
	if err := s.Exec(ctx, "SELECT pg_create_physical_replication_slot('standby', true)"); err != nil {
		return err
	}
	conn, err := pgconn.Connect(ctx, s.URL()) // a backup lives and ends with its session
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ask := func(sql string) (string, error) {
		results, err := conn.Exec(ctx, sql).ReadAll()
		if err != nil {
			return "", err
		}
		return string(results[0].Rows[0][0]), nil
	}
	start, stop := "SELECT pg_backup_start('standby', true)", "SELECT labelfile FROM pg_backup_stop(false)"
	if version, err := ask("SHOW server_version_num"); err != nil {
		return err
	} else if version < "150000" {
		start, stop = "SELECT pg_start_backup('standby', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	if _, err := ask(start); err != nil {
		return err
	}
	if err := copyCluster(s.data(), to); err != nil {
		return err
	}
	label, err := ask(stop)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "backup_label"), []byte(label), 0o600)
}

// copyCluster copies a cluster under a backup, without what belongs to the running server alone. Files may grow, shrink
// or go meanwhile.
func copyCluster(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		switch {
		case entry.IsDir():
			if err := os.MkdirAll(target, 0o700); err != nil {
				return err
			}
			if below == "pg_replslot" || below == "pg_wal" || below == "pg_dynshmem" {
				if below == "pg_wal" {
					if err := os.MkdirAll(filepath.Join(target, "archive_status"), 0o700); err != nil {
						return err
					}
				}
				return fs.SkipDir
			}
			return nil
		case strings.HasPrefix(below, "postmaster."):
			return nil
		}
		return copyFile(path, target)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Promote makes a standby a primary, and waits until it is.
func (s *Server) Promote(ctx context.Context) error {
	return s.Exec(ctx, "SELECT pg_promote(true, 60)")
}
