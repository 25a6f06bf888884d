package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/streambed/streambed/cmd/internal/config"
	"github.com/streambed/streambed/stages/source"
)

// lowSpace is the free space in bytes below which a folder is a finding.
const lowSpace = 1 << 30

// localFindings examines the folders of this machine that the pipeline writes to. It makes none of them.
func localFindings(cfg *config.Config) []source.Finding {
	var list []source.Finding
	seen := map[string]bool{}
	for _, f := range localFolders(cfg) {
		if seen[f.path] {
			continue
		}
		seen[f.path] = true
		if finding := examineFolder(f); finding != nil {
			list = append(list, *finding)
		}
	}
	return list
}

// folder is a local folder that a key of the configuration names.
type folder struct{ key, path string }

func localFolders(cfg *config.Config) []folder {
	list := []folder{{"state", cfg.State}}
	if path, local := strings.CutPrefix(cfg.Lake.Warehouse, "file://"); local {
		list = append(list, folder{"lake.warehouse", path})
	}
	if path, local := strings.CutPrefix(cfg.Lake.Catalog, "sqlite://"); local {
		list = append(list, folder{"lake.catalog", filepath.Dir(path)})
	}
	return list
}

// examineFolder looks whether a folder, or the nearest one above it that exists, can be written and has space.
func examineFolder(f folder) *source.Finding {
	at := f.path
	for {
		info, err := os.Stat(at)
		if err == nil {
			if !info.IsDir() {
				return &source.Finding{Severity: source.Error, Subject: f.key, Text: fmt.Sprintf("%s is a file where a folder is needed; choose another path", at)}
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return &source.Finding{Severity: source.Error, Subject: f.key, Text: fmt.Sprintf("%s cannot be looked at: %v", at, err)}
		}
		at = filepath.Dir(at)
	}
	if err := syscall.Access(at, 2|1); err != nil {
		return &source.Finding{Severity: source.Error, Subject: f.key,
			Text: fmt.Sprintf("this user may not write to %s, where %s is to be; make the folder and give it to the user that runs streambedd", at, f.path)}
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(at, &disk); err == nil {
		if free := uint64(disk.Bavail) * uint64(disk.Bsize); free < lowSpace {
			return &source.Finding{Severity: source.Warning, Subject: f.key,
				Text: fmt.Sprintf("only %s are free for %s; a full disk stops the pipeline until space is made", bytesText(int64(free)), f.path)}
		}
	}
	return nil
}
