package oracle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/streambed/streambed/formats"
)

// patience bounds how long the lake may take to hold what the source holds at rest.
const patience = 40 * time.Second

// settle waits until the lake holds all that the source does, and compares all tables.
func (h *history) settle() (err error) {
	ctx := h.t.Context()
	if h.conn.IsClosed() || h.conn.Ping(ctx) != nil {
		if h.conn, err = connect(ctx, h.url); err != nil {
			return err
		}
	}
	if err := endAllPrepared(ctx, h.conn); err != nil {
		return err
	}
	if err := h.touch(ctx); err != nil {
		return err
	}
	position, err := h.position(ctx)
	if err != nil {
		return err
	}
	// The position moves at once only with a commit. This one is not waited for, so its table is not compared.
	if _, err := h.conn.Exec(ctx, "INSERT INTO beat SELECT count(*) FROM beat"); err != nil {
		return err
	}
	names, err := h.names(ctx)
	if err != nil {
		return err
	}
	h.tell("at rest at %s", position)
	defer func() { h.tell("settled") }()
	found := rest{contents: map[string]*content{}}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	waiting := "the pipeline to begin"
	for {
		if view, err := h.lake.reader.Current(ctx); err != nil {
			return err
		} else if view.Position < position {
			waiting = fmt.Sprintf("the lake, at %s, to reach %s", view.Position, position)
		} else if waiting, err = h.compare(ctx, view, names, &found); err != nil || waiting == "" && found.checkpoint == view.Checkpoint {
			if err == nil {
				h.rests = append(h.rests, found)
			}
			return err
		}
		select {
		case <-again.C:
		case <-h.process.exited:
			if err := h.died(); err != nil {
				return err
			}
		case <-deadline.C:
			return fmt.Errorf("waited in vain for %s", waiting)
		}
	}
}

// touch writes a row of every table: the stream tells of new columns only with a row that has them.
func (h *history) touch(ctx context.Context) error {
	names, err := h.names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		columns, kind := []column(nil), keyed
		h.model.alter(name, func(t *table) { columns, kind = t.columns, t.shape })
		sql := "INSERT INTO " + name + " DEFAULT VALUES"
		if len(columns) == 0 {
			continue // never altered
		}
		if kind != appended {
			c := ident(columns[0].name)
			sql = fmt.Sprintf("UPDATE %[1]s SET %[2]s = %[2]s WHERE ctid = (SELECT ctid FROM %[1]s LIMIT 1)", name, c)
		}
		if _, err := h.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// names are the tables that the source has, by their SQL names.
func (h *history) names(ctx context.Context) ([]string, error) {
	names := []string{"acct_a", "acct_b", "ledger", "child"}
	h.model.mu.Lock()
	var made []string
	for _, t := range h.model.tables {
		made = append(made, t.name)
	}
	h.model.mu.Unlock()
	for _, name := range made {
		if err := h.model.look(ctx, h.conn, name); err != nil {
			return nil, err
		}
		h.model.alter(name, func(t *table) {
			if !t.dropped {
				names = append(names, name)
			}
		})
	}
	return names, nil
}

// compare holds all tables of a view against the source. What is still to be waited for is told in waiting; a difference
// that waiting cannot mend is an error.
func (h *history) compare(ctx context.Context, view *formats.View, names []string, found *rest) (waiting string, err error) {
	found.checkpoint = view.Checkpoint
	for _, name := range names {
		plain := strings.Trim(name, `"`)
		altered := h.model.altered(name)
		shown := find(view, plain)
		if shown == nil {
			return "table " + name + " to be shown", nil
		}
		is, err := h.lake.content(ctx, view, plain)
		if err != nil {
			return "", err
		}
		d := ""
		was, err := sourceContent(ctx, h.conn, name, &shown.Schema, h.duckLake)
		if errors.Is(err, errColumns) && is.count == 0 && was.count == 0 {
			d = "" // no row has told the lake of the columns yet
		} else if err != nil {
			d = err.Error()
		} else {
			d = difference(was, is)
		}
		if d != "" {
			d = fmt.Sprintf("table %s at checkpoint %d, %s (set aside: %q): %s", name, view.Checkpoint, view.Position, shown.SetAside, d)
			if altered == h.same[name] && shown.SetAside == "" {
				return "", fmt.Errorf("lake and source differ: %s", d)
			}
			return d, nil
		}
		found.contents[plain] = is
	}
	if waiting = h.unwell(names); waiting != "" {
		return waiting, nil
	}
	for _, name := range names {
		h.same[name] = h.model.altered(name)
	}
	return "", h.warned()
}

// unwell tells what of the pipeline's status is not as it should be at rest.
func (h *history) unwell(names []string) string {
	status, err := h.process.ask("")
	if err != nil {
		return "the pipeline to answer"
	}
	live := map[string]string{}
	for _, t := range status.Tables {
		if live[t.Name] != "live" {
			live[t.Name] = t.Phase + " " + t.SetAside
			if t.Phase == "live" {
				live[t.Name] = t.Phase
			}
		}
	}
	for _, name := range names {
		shown := "public." + name
		if phase := live[shown]; phase != "live" {
			return fmt.Sprintf("table %s to be live: it is %q", shown, phase)
		}
	}
	return ""
}
