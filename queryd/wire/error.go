package wire

import (
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Failure is an error as a client sees it.
type Failure struct {
	// Severity is ERROR, FATAL, WARNING or NOTICE; "" means ERROR.
	Severity string
	// State is the SQLSTATE.
	State   string
	Message string
	Detail  string
	Hint    string
	// Position is the byte offset in Statement; -1 when unknown.
	Position  int
	Statement string
}

func (f *Failure) Error() string { return f.Message }

// Response makes the message. Postgres counts positions in characters, from 1.
func (f *Failure) Response() *pgproto3.ErrorResponse {
	severity := f.Severity
	if severity == "" {
		severity = "ERROR"
	}
	r := &pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: f.State, Message: clean(f.Message), Detail: clean(f.Detail), Hint: clean(f.Hint)}
	if f.Position >= 0 && f.Position <= len(f.Statement) && f.Statement != "" {
		r.Position = int32(utf8.RuneCountInString(f.Statement[:f.Position])) + 1
	}
	return r
}

// Notice makes the message of a notice.
func (f *Failure) Notice() *pgproto3.NoticeResponse {
	n := pgproto3.NoticeResponse(*f.Response())
	return &n
}

// clean takes out what the protocol's strings cannot hold.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}
