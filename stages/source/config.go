package source

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/types"
)

// Config says which database, slot, publication and tables make up a pipeline's source.
type Config struct {
	// URL is the database that is read; it may be a hot standby from Postgres 16 on.
	URL string
	// PrimaryURL is the primary of a standby URL: publications are made there. "" means URL.
	PrimaryURL string
	// Slot is the logical replication slot: lower case letters, digits and underscores, at most 63.
	Slot string
	// Publication is the name of the first of our two publications or of a user's own.
	Publication string
	// UserPublication tells that Publication is known to be a user's own: one that is missing is then not made, it is
	// ErrPublicationMissing.
	UserPublication bool
	// Tables and Exclude are patterns (see Pattern). No Tables means every table.
	Tables, Exclude []string
	// Columns are settings by column, of some tables.
	Columns map[formats.TableName]ColumnSettings
}

// ColumnSettings are a table's settings by column.
type ColumnSettings struct {
	// Exclude names columns that the lake leaves out, in any order; a key's columns stay.
	Exclude []string
	// Numeric gives numeric columns without precision their type in the lake, by name.
	Numeric map[string]types.Type
}

// String is the settings' text, the same for the same settings; "" for none.
func (s ColumnSettings) String() string {
	var parts []string
	for _, name := range s.Exclude {
		parts = append(parts, "without "+Quote(name))
	}
	for name, t := range s.Numeric {
		parts = append(parts, fmt.Sprintf("%s as %v", Quote(name), t))
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ", ")
}

// appendSuffix ends the name of the publication for tables that only take inserts and truncates.
const appendSuffix = "_append"

// maxIdentifier is the most bytes that Postgres keeps of an identifier (NAMEDATALEN - 1).
const maxIdentifier = 63

// AppendPublication is the name of the publication for tables without a usable identity.
func (c *Config) AppendPublication() string { return c.Publication + appendSuffix }

// primary is where publications are made.
func (c *Config) primary() string {
	if c.PrimaryURL != "" {
		return c.PrimaryURL
	}
	return c.URL
}

var slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// Validate checks the settings without asking a server; all errors are reported at once.
func (c *Config) Validate() error {
	var all []error
	if c.URL == "" {
		all = append(all, errors.New("source.url is empty: set it to the database to read, such as postgres://user@host:5432/db"))
	}
	if !slotName.MatchString(c.Slot) {
		all = append(all, fmt.Errorf("source.slot %q is not a slot name: use 1 to 63 lower case letters, digits and underscores", c.Slot))
	}
	if n := len(c.Publication); n == 0 || n > maxIdentifier-len(appendSuffix) {
		all = append(all, fmt.Errorf("source.publication %q has %d bytes: use 1 to %d, since Postgres cuts longer names off and a second one ends in %s",
			c.Publication, n, maxIdentifier-len(appendSuffix), appendSuffix))
	}
	if _, err := c.Selection(); err != nil {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Selection parses the table patterns.
func (c *Config) Selection() (*Selection, error) {
	tables := c.Tables
	if len(tables) == 0 {
		tables = []string{"*.*"}
	}
	var s Selection
	var all []error
	for _, list := range []struct {
		texts []string
		to    *[]Pattern
	}{{tables, &s.Tables}, {c.Exclude, &s.Exclude}} {
		for _, text := range list.texts {
			p, err := ParsePattern(text)
			if err != nil {
				all = append(all, err)
				continue
			}
			*list.to = append(*list.to, p)
		}
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	return &s, nil
}
