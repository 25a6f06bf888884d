package formats

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// Arrangement says how the rows of a table are laid out in its files: those of one file are of one partition, in order.
// The zero value leaves them as they come.
type Arrangement struct {
	PartitionBy []Transform
	SortBy      []SortField
}

// Transform is one field of a partitioning.
type Transform struct {
	// Name is identity, bucket, truncate, year, month, day or hour.
	Name string
	// Width is the number of buckets or the width of truncate; else 0.
	Width  int
	Column string
}

// SortField is one field of a sort order. NULLs come first, and last where it is descending.
type SortField struct {
	Column     string
	Descending bool
}

// Arranging is a Lake some of whose tables are laid out by an Arrangement.
type Arranging interface {
	// Arranger gives what splits and sorts the rows of new files of a table of this schema; nil when they stay as they come.
	Arranger(name TableName, schema *Schema) Arranger
}

// Arranger splits rows by partition and sorts them. It is safe for concurrent use.
type Arranger interface {
	// Columns are the indexes of the schema's columns that it looks at.
	Columns() []int
	// Arrange takes rows of those columns, in that order, and gives the files that they make: together they have every row
	// once. It keeps nothing of the record.
	Arrange(record arrow.RecordBatch) ([]ArrangedRows, error)
}

// ArrangedRows are rows that belong into one file.
type ArrangedRows struct {
	// Rows are indexes into what was arranged, in the file's order.
	Rows []int
	// Folder is where the file lies below the table's location, without slashes at its ends.
	Folder string
	// Partition is what DataFile.Partition of the file is to be.
	Partition string
}
