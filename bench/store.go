package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/streambed/streambed/test/versitygw"
)

// place is where warehouse and catalog of one measurement lie.
type place struct {
	// warehouse and catalog are values of the configuration, s3 the s3 section or "".
	warehouse, catalog, s3 string
	// folder holds the warehouse's objects.
	folder string
	close  func()
}

// newPlace makes a folder or starts an S3 server over one below dir, and names a catalog.
func newPlace(ctx context.Context, o *options, dir, postgresURL string) (*place, error) {
	p := &place{close: func() {}, catalog: "sqlite://" + filepath.Join(dir, "catalog.db")}
	if o.catalog == "postgres" {
		p.catalog = postgresURL
	}
	if o.store == "folder" {
		p.folder = filepath.Join(dir, "warehouse")
		p.warehouse = "file://" + p.folder
		return p, nil
	}
	served := filepath.Join(dir, "s3")
	if err := os.Mkdir(served, 0o755); err != nil {
		return nil, err
	}
	server, err := versitygw.Start(ctx, served)
	if err != nil {
		return nil, err
	}
	p.close = server.Close
	p.folder = filepath.Join(served, versitygw.Bucket)
	p.warehouse = "s3://" + versitygw.Bucket + "/lake"
	p.s3 = fmt.Sprintf("s3: {endpoint: %q, region: %s, access_key: %s, secret_key: %s}\n", server.Endpoint, versitygw.Region, versitygw.AccessKey, versitygw.SecretKey)
	return p, nil
}

// objects counts what lies in the warehouse, and its bytes.
func (p *place) objects() (count, size int64, err error) {
	err = filepath.WalkDir(p.folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		count++
		size += info.Size()
		return nil
	})
	return count, size, err
}
