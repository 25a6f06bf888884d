package ducklake

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
)

// arrangement is how the catalog says that a table's new files are partitioned and sorted. The configuration is what
// counts: a table that is written to gets what it says, and keeps files of before as they are.
type arrangement struct {
	// partition is DuckLake's number of the partitioning; 0 for none, which no partitioning has, since schema main is 0.
	partition int64
	fields    []partitionField // without values
	sorts     []sortExpression
}

type sortExpression struct{ expression, direction, nulls string }

// arrangementOf gives what an arranger, nil for none, asks for, with the names that columns have in the catalog.
func arrangementOf(a *arranger, cols []column) (want arrangement) {
	if a == nil {
		return want
	}
	for _, p := range a.parts {
		want.fields = append(want.fields, p.partitionField)
	}
	for _, s := range a.sorts {
		for _, c := range cols {
			if c.id != s.column || c.parent != 0 {
				continue
			}
			e := sortExpression{quoteUnlessWord(c.name), "ASC", "NULLS_FIRST"}
			if s.descending {
				e.direction, e.nulls = "DESC", "NULLS_LAST"
			}
			want.sorts = append(want.sorts, e)
		}
	}
	return want
}

// quoteUnlessWord quotes a name that DuckDB would not read as one otherwise.
func quoteUnlessWord(name string) string {
	if slices.Contains(reservedWords, name) {
		return quote(name)
	}
	return quoteUnlessPlain(name)
}

// reservedWords are DuckDB's that are no column's name unless quoted.
var reservedWords = strings.Fields(`all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by
	case cast check collate collation column columns concurrently constraint create cross default deferrable desc describe
	distinct do else end except false fetch for foreign freeze from full generated glob group having ilike in initially inner
	intersect into is isnull join lambda lateral leading left like limit map natural not notnull null offset on only or order
	outer overlaps pivot pivot_longer pivot_wider placing positional primary qualify references returning right select semi
	show similar some struct summarize symmetric table tablesample then to trailing true try_cast union unique unpack unpivot
	using variadic verbose when where window with`)

// readArrangement reads a table's own.
func readArrangement(tx *transaction, table int64) (have arrangement, err error) {
	err = tx.row(`SELECT partition_id FROM ducklake_partition_info WHERE table_id = $1 AND end_snapshot IS NULL`, table).Scan(&have.partition)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return have, err
	}
	if err == nil {
		err = tx.each(func(scan func(...any) error) error {
			var f partitionField
			err := scan(&f.Column, &f.Transform)
			have.fields = append(have.fields, f)
			return err
		}, `SELECT column_id, transform FROM ducklake_partition_column WHERE partition_id = $1 AND table_id = $2 ORDER BY partition_key_index`, have.partition, table)
		if err != nil {
			return have, err
		}
	}
	return have, tx.each(func(scan func(...any) error) error {
		var e sortExpression
		err := scan(&e.expression, &e.direction, &e.nulls)
		have.sorts = append(have.sorts, e)
		return err
	}, `SELECT e.expression, e.sort_direction, e.null_order FROM ducklake_sort_info i JOIN ducklake_sort_expression e
		ON e.sort_id = i.sort_id AND e.table_id = i.table_id WHERE i.table_id = $1 AND i.end_snapshot IS NULL ORDER BY e.sort_key_index`, table)
}

// arrange makes the catalog's arrangement of a table the wanted one, and tells whether the partitioning, or anything of
// it, was another.
func (w *snapshotWriter) arrange(r *row, want arrangement) (partitioned, changed bool, err error) {
	r.arrangement = r.inc.arrangement
	have := &r.arrangement
	if !slices.Equal(have.fields, want.fields) {
		partitioned, changed = true, true
		if err := w.partition(r.tableID, have, want.fields); err != nil {
			return partitioned, changed, err
		}
	}
	if !slices.Equal(have.sorts, want.sorts) {
		changed = true
		err = w.sort(r.tableID, have, want.sorts)
	}
	return partitioned, changed, err
}

func (w *snapshotWriter) partition(table int64, have *arrangement, fields []partitionField) error {
	if _, err := w.exec(`UPDATE ducklake_partition_info SET end_snapshot = $1 WHERE table_id = $2 AND end_snapshot IS NULL`, w.id, table); err != nil {
		return err
	}
	have.partition, have.fields = 0, fields
	if len(fields) == 0 {
		return nil
	}
	have.partition = w.nextCatalog
	w.nextCatalog++
	if _, err := w.exec(`INSERT INTO ducklake_partition_info (partition_id, table_id, begin_snapshot) VALUES ($1, $2, $3)`, have.partition, table, w.id); err != nil {
		return err
	}
	for i, f := range fields {
		if _, err := w.exec(`INSERT INTO ducklake_partition_column (partition_id, table_id, partition_key_index, column_id, transform)
			VALUES ($1, $2, $3, $4, $5)`, have.partition, table, i, f.Column, f.Transform); err != nil {
			return err
		}
	}
	return nil
}

func (w *snapshotWriter) sort(table int64, have *arrangement, sorts []sortExpression) error {
	if _, err := w.exec(`UPDATE ducklake_sort_info SET end_snapshot = $1 WHERE table_id = $2 AND end_snapshot IS NULL`, w.id, table); err != nil {
		return err
	}
	have.sorts = sorts
	if len(sorts) == 0 {
		return nil
	}
	id := w.nextCatalog
	w.nextCatalog++
	if _, err := w.exec(`INSERT INTO ducklake_sort_info (sort_id, table_id, begin_snapshot) VALUES ($1, $2, $3)`, id, table, w.id); err != nil {
		return err
	}
	for i, e := range sorts {
		if _, err := w.exec(`INSERT INTO ducklake_sort_expression (sort_id, table_id, sort_key_index, expression, dialect, sort_direction, null_order)
			VALUES ($1, $2, $3, $4, 'duckdb', $5, $6)`, id, table, i, e.expression, e.direction, e.nulls); err != nil {
			return err
		}
	}
	return nil
}

// partitionOf gives a file's values in the table's partitioning; nil when it is of none, or of one from before.
func (a *arrangement) partitionOf(f *dataFile) ([]partitionField, error) {
	fields, err := decodePartition(f.partition)
	if err != nil || a.partition == 0 {
		return nil, err
	}
	same := slices.EqualFunc(fields, a.fields, func(x, y partitionField) bool { return x.Column == y.Column && x.Transform == y.Transform })
	if !same {
		return nil, nil
	}
	return fields, nil
}

// addPartition notes the values of a file's partition.
func (w *snapshotWriter) addPartition(table, file int64, fields []partitionField) error {
	for i, f := range fields {
		if _, err := w.exec(`INSERT INTO ducklake_file_partition_value (data_file_id, table_id, partition_key_index, partition_value)
			VALUES ($1, $2, $3, $4)`, file, table, i, f.Value); err != nil {
			return err
		}
	}
	return nil
}

// readPartitions gives the live files, by number, the partitions that they are of.
func readPartitions(tx *transaction, table int64, a *arrangement, files map[int64]*dataFile) error {
	values := map[int64][]partitionField{}
	err := tx.each(func(scan func(...any) error) error {
		var file int64
		var index int
		var value sql.NullString
		if err := scan(&file, &index, &value); err != nil {
			return err
		}
		if values[file] == nil {
			values[file] = slices.Clone(a.fields)
		}
		if index < len(a.fields) && value.Valid {
			values[file][index].Value = &value.String
		}
		return nil
	}, `SELECT v.data_file_id, v.partition_key_index, v.partition_value FROM ducklake_data_file d JOIN ducklake_file_partition_value v
		ON v.data_file_id = d.data_file_id WHERE d.table_id = $1 AND d.end_snapshot IS NULL AND d.partition_id = $2`, table, a.partition)
	if err != nil {
		return err
	}
	for file, fields := range values {
		if f := files[file]; f != nil {
			if f.partition, err = encodePartition(fields); err != nil {
				return err
			}
		}
	}
	return nil
}
