package ducklake

import (
	"path"
	"strings"

	"github.com/streambed/streambed/formats"
)

// dataFolder holds a table's data files, below its location, but for those of a partition. They lie where DuckDB would put
// them: it merges only files of a partition that lie in one folder (promise 11).
const dataFolder = "data"

// longestFolder is the most bytes of a folder's name that every file system takes.
const longestFolder = 255

// nameKeys gives the partition's fields the names that DuckDB gives them in paths: that of the transform, or of the column,
// and both where the first is taken.
func (a *arranger) nameKeys(schema *formats.Schema) {
	cols, err := columns(schema)
	if err != nil {
		return // the table cannot be written at all
	}
	used := nameSet{}
	for i := range a.parts {
		p := &a.parts[i]
		column := ""
		for _, c := range cols {
			if c.parent == 0 && c.id == p.Column {
				column = c.name
			}
		}
		transform, _, _ := strings.Cut(p.Transform, "(")
		if p.key = transform; transform == "identity" {
			p.key = column
		}
		if used[fold(p.key)] {
			p.key += "_" + column
		}
		used[fold(p.key)] = true
	}
}

// folder gives the folder of a partition's files; ok is false when it would have a name that is too long.
func (a *arranger) folder(fields []partitionField) (folder string, ok bool) {
	if len(fields) == 0 {
		return dataFolder, true
	}
	parts := make([]string, len(fields))
	for i, f := range fields {
		value := "__HIVE_DEFAULT_PARTITION__"
		if f.Value != nil {
			value = escape(*f.Value)
		}
		parts[i] = escape(a.parts[i].key) + "=" + value
		if len(parts[i]) > longestFolder {
			return dataFolder, false
		}
	}
	return path.Join(parts...), true
}

// folderOf gives the folder of a partition in its encoded form.
func (a *arranger) folderOf(partition string) string {
	fields, err := decodePartition(partition)
	if err != nil || a == nil || len(fields) != len(a.parts) {
		return dataFolder
	}
	folder, _ := a.folder(fields)
	return folder
}

// escape writes a text as part of a path, percent-encoded.
func escape(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

// holdsData reports whether a file with this URI is a table's data file, by its folder.
func holdsData(uri string) bool {
	folder := path.Base(path.Dir(uri))
	return folder == dataFolder || strings.Contains(folder, "=")
}
