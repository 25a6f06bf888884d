package sqltext

import (
	"slices"
	"strconv"
	"strings"
)

// Command is what a statement asks for: one of the types below.
type Command interface{ command() }

// The commands that are understood. Inner statements keep their place in the whole text.
type (
	// Query reads: SELECT, VALUES, TABLE, WITH.
	Query struct{ Statement Statement }
	// Explain shows a query's plan. Options are the words between EXPLAIN and the query.
	Explain struct {
		Analyze bool
		JSON    bool
		Query   Statement
	}
	// Set changes a setting for the session, or with Local for the transaction. Default restores it.
	Set struct {
		Name    string
		Values  []string
		Local   bool
		Default bool
	}
	// Show tells a setting's value; "all" tells all.
	Show struct{ Name string }
	// Reset restores a setting; "all" restores all.
	Reset struct{ Name string }
	// Begin opens a transaction block; Write tells that READ WRITE was asked for.
	Begin struct{ Write bool }
	// End closes a transaction block; Chain opens the next at once.
	End struct{ Commit, Chain bool }
	// Savepoint, ReleaseSavepoint and RollbackTo mark and restore a place in a transaction block.
	Savepoint        struct{ Name string }
	ReleaseSavepoint struct{ Name string }
	RollbackTo       struct{ Name string }
	// SetTransaction sets the characteristics of the transaction or, with Session, of those to come.
	SetTransaction struct{ Session, Write bool }
	// Discard frees what the session holds: all, plans, sequences or temp.
	Discard struct{ What string }
	// Deallocate forgets a prepared statement; "" forgets all.
	Deallocate struct{ Name string }
	// Prepare names a statement. Types are its parameters' types as written.
	Prepare struct {
		Name  string
		Types []string
		Inner Statement
	}
	// Execute runs a prepared statement; Args are the argument expressions.
	Execute struct {
		Name string
		Args []Statement
	}
	// Declare opens a cursor.
	Declare struct {
		Name   string
		Hold   bool
		Scroll bool
		Binary bool
		Query  Statement
	}
	// Fetch reads from a cursor, or with Move skips. Count < 0 means all.
	Fetch struct {
		Name  string
		Count int64
		Move  bool
	}
	// CloseCursor closes a cursor; "" closes all.
	CloseCursor struct{ Name string }
	// CopyOut sends a query's or a table's rows.
	CopyOut struct {
		Query   Statement
		Options CopyOptions
	}
	// Nothing is a statement that is accepted and has no effect here, such as UNLISTEN.
	Nothing struct{ Tag string }
	// Refused is a statement that this server does not run, with the error to answer.
	Refused struct{ Err *Error }
)

func (Query) command()            {}
func (Explain) command()          {}
func (Set) command()              {}
func (Show) command()             {}
func (Reset) command()            {}
func (Begin) command()            {}
func (End) command()              {}
func (Savepoint) command()        {}
func (ReleaseSavepoint) command() {}
func (RollbackTo) command()       {}
func (SetTransaction) command()   {}
func (Discard) command()          {}
func (Deallocate) command()       {}
func (Prepare) command()          {}
func (Execute) command()          {}
func (Declare) command()          {}
func (Fetch) command()            {}
func (CloseCursor) command()      {}
func (CopyOut) command()          {}
func (Nothing) command()          {}
func (Refused) command()          {}

// Parse tells what a statement asks for. It never lets through as a Query what does not begin like one (promise 12);
// whether the rest only reads is for the parser to tell.
func Parse(s Statement) (Command, error) {
	switch s.keyword(0) {
	case "select", "values", "table", "with", "from":
		return Query{s}, nil
	case "":
		if s.token(0) == "(" {
			return Query{s}, nil
		}
	case "explain":
		return parseExplain(&s)
	case "set":
		return parseSet(&s)
	case "show":
		return parseShow(&s)
	case "reset":
		name, _, err := s.settingName(1)
		return Reset{name}, err
	case "begin", "start":
		return Begin{s.asksToWrite()}, nil
	case "commit", "end":
		return End{Commit: true, Chain: s.chains()}, nil
	case "rollback", "abort":
		if i := s.find("to"); i > 0 {
			return RollbackTo{Name(s.token(len(s.Tokens) - 1))}, nil
		}
		return End{Chain: s.chains()}, nil
	case "savepoint":
		return Savepoint{Name(s.token(1))}, nil
	case "release":
		return ReleaseSavepoint{Name(s.token(len(s.Tokens) - 1))}, nil
	case "discard":
		return Discard{s.keyword(1)}, nil
	case "deallocate":
		name := s.token(len(s.Tokens) - 1)
		if s.keyword(len(s.Tokens)-1) == "all" {
			name = ""
		}
		return Deallocate{Name(name)}, nil
	case "prepare":
		return parsePrepare(&s)
	case "execute":
		return parseExecute(&s)
	case "declare":
		return parseDeclare(&s)
	case "fetch", "move":
		return parseFetch(&s)
	case "close":
		name := Name(s.token(1))
		if s.keyword(1) == "all" {
			name = ""
		}
		return CloseCursor{name}, nil
	case "copy":
		return parseCopy(&s)
	case "unlisten":
		return Nothing{"UNLISTEN"}, nil
	}
	return refuse(&s), nil
}

// writes are Postgres' statements that change something, by their first word.
var writes = []string{
	"insert", "update", "delete", "merge", "truncate", "create", "alter", "drop", "grant", "revoke", "comment", "vacuum", "analyze",
	"cluster", "reindex", "refresh", "call", "do", "lock", "import", "security", "reassign", "notify", "checkpoint", "load",
}

func refuse(s *Statement) Command {
	word := strings.ToUpper(s.token(0))
	if slices.Contains(writes, s.keyword(0)) && word != "LOAD" {
		return Refused{&Error{"25006", "cannot execute " + word + ": this server only reads; write to the source database", 0}}
	}
	if s.keyword(0) == "" {
		return Refused{&Error{"42601", `syntax error at or near "` + s.token(0) + `"`, 0}}
	}
	return Refused{&Error{"0A000", word + " is not supported: this server runs queries, SET, SHOW, transactions, cursors, PREPARE and COPY TO STDOUT", 0}}
}

func (s *Statement) find(word string) int {
	for i := range s.Tokens {
		if s.keyword(i) == word {
			return i
		}
	}
	return -1
}

func (s *Statement) chains() bool {
	n := len(s.Tokens)
	return s.keyword(n-1) == "chain" && s.keyword(n-2) == "and"
}

func (s *Statement) asksToWrite() bool {
	i := s.find("write")
	return i > 0 && s.keyword(i-1) == "read"
}

func parseExplain(s *Statement) (Command, error) {
	e := Explain{}
	i := 1
	if s.token(i) == "(" {
		for ; i < len(s.Tokens) && s.token(i) != ")"; i++ {
			switch s.keyword(i) {
			case "analyze":
				v := s.keyword(i + 1)
				e.Analyze = v != "false" && v != "off" && s.token(i+1) != "0"
			case "json":
				e.JSON = true
			}
		}
		i++
	} else {
		for ; s.keyword(i) == "analyze" || s.keyword(i) == "verbose"; i++ {
			e.Analyze = e.Analyze || s.keyword(i) == "analyze"
		}
	}
	inner, err := Parse(s.from(i))
	if err != nil {
		return nil, err
	}
	switch inner := inner.(type) {
	case Query:
		e.Query = inner.Statement
		return e, nil
	case Refused:
		return inner, nil
	}
	return Refused{&Error{"0A000", "EXPLAIN shows the plans of queries only", s.from(i).Offset - s.Offset}}, nil
}

func parsePrepare(s *Statement) (Command, error) {
	p := Prepare{Name: Name(s.token(1))}
	i := 2
	if s.token(i) == "(" {
		depth, from := 0, i+1
		for ; i < len(s.Tokens); i++ {
			switch s.token(i) {
			case "(":
				depth++
			case ")":
				depth--
			}
			if depth == 0 || depth == 1 && s.token(i) == "," {
				if i > from {
					part := s.between(from, i)
					p.Types = append(p.Types, part.Text)
				}
				from = i + 1
			}
			if depth == 0 {
				break
			}
		}
		i++
	}
	if s.keyword(i) != "as" || !s.isName(1) {
		return nil, s.unexpected(min(i, len(s.Tokens)))
	}
	p.Inner = s.from(i + 1)
	return p, nil
}

func parseExecute(s *Statement) (Command, error) {
	e := Execute{Name: Name(s.token(1))}
	if !s.isName(1) {
		return nil, s.unexpected(1)
	}
	if len(s.Tokens) == 2 {
		return e, nil
	}
	if s.token(2) != "(" || s.token(len(s.Tokens)-1) != ")" {
		return nil, s.unexpected(2)
	}
	depth, from := 0, 3
	for i := 3; i < len(s.Tokens); i++ {
		t := s.token(i)
		if depth == 0 && (t == "," || i == len(s.Tokens)-1) {
			if i > from {
				e.Args = append(e.Args, s.between(from, i))
			}
			from = i + 1
		}
		switch t {
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		}
	}
	return e, nil
}

func (s *Statement) unexpected(i int) error {
	if i >= len(s.Tokens) {
		return syntaxError(len(s.Text), "syntax error at end of input")
	}
	return syntaxError(s.Tokens[i].From, "syntax error at or near %q", s.token(i))
}

func parseDeclare(s *Statement) (Command, error) {
	d := Declare{Name: Name(s.token(1))}
	i := 2
	for ; i < len(s.Tokens) && s.keyword(i) != "for"; i++ {
		switch s.keyword(i) {
		case "scroll":
			d.Scroll = s.keyword(i-1) != "no"
		case "hold":
			d.Hold = s.keyword(i-1) == "with"
		case "binary":
			d.Binary = true
		case "insensitive", "asensitive", "no", "cursor", "with", "without":
		default:
			return nil, s.unexpected(i)
		}
	}
	if !s.isName(1) || s.keyword(i) != "for" {
		return nil, s.unexpected(i)
	}
	inner, err := Parse(s.from(i + 1))
	if err != nil {
		return nil, err
	}
	q, ok := inner.(Query)
	if !ok {
		return Refused{&Error{"42601", "a cursor reads a query", s.from(i+1).Offset - s.Offset}}, nil
	}
	d.Query = q.Statement
	return d, nil
}

func parseFetch(s *Statement) (Command, error) {
	f := Fetch{Name: Name(s.token(len(s.Tokens) - 1)), Count: 1, Move: s.keyword(0) == "move"}
	for i := 1; i < len(s.Tokens)-1; i++ {
		switch w := s.keyword(i); {
		case w == "all":
			f.Count = -1
		case s.Tokens[i].Kind == Number:
			n, err := strconv.ParseInt(s.token(i), 10, 64)
			if err != nil {
				return nil, s.unexpected(i)
			}
			f.Count = n
		case w == "next", w == "forward", w == "from", w == "in":
		default:
			return Refused{&Error{"0A000", "cursors only move forward here", s.Tokens[i].From}}, nil
		}
	}
	if len(s.Tokens) < 2 || !s.isName(len(s.Tokens)-1) {
		return nil, s.unexpected(len(s.Tokens))
	}
	return f, nil
}
