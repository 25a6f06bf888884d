package batcher

import (
	"slices"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/stages/message"
	"github.com/streambed/streambed/stages/rows"
)

// dataFolder holds data files of no partition, below a table's location.
const dataFolder = "data"

// arrange tells which of the open rows make up which file, and their order there: all in one as they came, unless the lake
// wants the table's rows split and sorted.
func (b *Batcher) arrange(o *openSegment) ([]formats.ArrangedRows, error) {
	alive := make([]int, 0, o.alive)
	for i := range o.rows {
		if !o.rows[i].dead {
			alive = append(alive, i)
		}
	}
	arranger := arrangerOf(b.cfg.Lake, b.state.Table.Name, o.layout.Schema())
	if arranger == nil {
		return []formats.ArrangedRows{{Rows: alive, Folder: dataFolder}}, nil
	}
	files, missing, err := arrangeTuples(arranger, o, alive)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		for i, row := range f.Rows {
			f.Rows[i] = alive[row]
		}
	}
	return setMissingApart(files, missing), nil
}

func arrangerOf(lake formats.Lake, name formats.TableName, schema *formats.Schema) formats.Arranger {
	arranging, ok := lake.(formats.Arranging)
	if !ok {
		return nil
	}
	return arranging.Arranger(name, schema)
}

// arrangeTuples splits and sorts tuples, and tells which rows lack a value that this goes by: a large one that did not
// change is only read from the lake when the row is stored.
func arrangeTuples(arranger formats.Arranger, o *openSegment, alive []int) (files []formats.ArrangedRows, missing map[int]bool, err error) {
	layout := o.layout.Only(arranger.Columns())
	builder, err := layout.NewBuilder()
	if err != nil {
		return nil, nil, tableError("%w", err)
	}
	defer builder.Release()
	var values []message.Value
	var toasted []int
	for _, i := range alive {
		if values, err = message.Columns(o.rows[i].tuple, values[:0]); err != nil {
			return nil, nil, tableError("%w", err)
		}
		if toasted = layout.Toasted(values, toasted[:0]); len(toasted) > 0 {
			if missing == nil {
				missing = map[int]bool{}
			}
			missing[i] = true
			for c := range values {
				if values[c].Kind == 'u' {
					values[c] = message.Value{Kind: 'n'}
				}
			}
		}
		if err := builder.Append(values, nil); err != nil {
			return nil, nil, err
		}
	}
	record := builder.Record()
	defer record.Release()
	files, err = arranger.Arrange(record)
	return files, missing, err
}

// setMissingApart takes rows whose partition is not known out of their files and puts them into one of no partition.
func setMissingApart(files []formats.ArrangedRows, missing map[int]bool) []formats.ArrangedRows {
	if len(missing) == 0 {
		return files
	}
	apart := formats.ArrangedRows{Folder: dataFolder}
	for i, f := range files {
		if f.Partition == "" {
			continue
		}
		files[i].Rows = slices.DeleteFunc(f.Rows, func(row int) bool {
			if missing[row] {
				apart.Rows = append(apart.Rows, row)
			}
			return missing[row]
		})
	}
	files = slices.DeleteFunc(files, func(f formats.ArrangedRows) bool { return len(f.Rows) == 0 })
	if len(apart.Rows) > 0 {
		files = append(files, apart)
	}
	return files
}

// Arranger gives what splits and sorts the rows of a copy; nil when they stay as they come. layout is that of the rows.
func (b *Batcher) Arranger(table formats.TableRef, layout *rows.Layout) formats.Arranger {
	return arrangerOf(b.cfg.Lake, table.Name, layout.Schema())
}
