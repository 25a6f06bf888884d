package sqltext

import (
	"fmt"
	"strings"
	"testing"

	"github.com/streambed/streambed/queryd/names"
)

func TestStatementsAreCutAtSemicolonsOnly(t *testing.T) {
	for text, want := range map[string][]string{
		"":                     nil,
		" ; ;; ":               nil,
		"select 1":             {"select 1"},
		"select 1; select 2 ;": {"select 1", "select 2"},
		"select ';', \";\", $$;$$, $a$;$$;$a$, E'\\';', U&';' -- ;\n; select 2": {"select ';', \";\", $$;$$, $a$;$$;$a$, E'\\';', U&';'", "select 2"},
		"/* ; /* ; */ ; */ select 1": {"select 1"},
		"select 'it''s;'":            {"select 'it''s;'"},
		"select $1;select $2":        {"select $1", "select $2"},
		"select a$1;x":               {"select a$1", "x"},
	} {
		got, err := Split(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var texts []string
		for _, s := range got {
			texts = append(texts, s.Text)
			if text[s.Offset:s.Offset+len(s.Text)] != s.Text {
				t.Errorf("%q: offset %d is wrong", text, s.Offset)
			}
		}
		if fmt.Sprint(texts) != fmt.Sprint(want) {
			t.Errorf("%q: %q, not %q", text, texts, want)
		}
	}
	for _, text := range []string{"select 'x", `select "x`, "select /* x", "select $$x", `select ""`, "select e'\\'"} {
		if _, err := Split(text); err == nil {
			t.Errorf("%q is not refused", text)
		}
	}
}

func TestFoldKeepsQuotedNamesAndPositions(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT Foo."Bar", 'Str', $$Dollar$$ FROM "T" AS X`:          `select foo."Bar", 'Str', $$Dollar$$ from "T" as x`,
		`SELECT a OPERATOR(pg_catalog.~) 'x', B`:                     `select a  ~  'x', b`,
		`select S.T.*, "S"."T".* , a.b from S.T`:                     `select t.*, "T".* , a.b from s.t`,
		`select At, x.at from t at (version => 1) where at = 1`:      `select "at", x."at" from t at (version => 1) where "at" = 1`,
		`select d AT TIME ZONE 'UTC', (at) from t group by at, show`: `select d at time zone 'UTC', ("at") from t group by "at", "show"`,
		`select ÜBER from t`:                                         `select Über from t`,
	} {
		parts, err := Split(text)
		if err != nil {
			t.Fatal(err)
		}
		f := Fold(parts[0])
		if got := names.Decode(f.Text); got != want {
			t.Errorf("%s\nfolds to %s\nnot      %s", text, got, want)
		}
		// Every token that was not changed is found again at its place.
		for i, tok := range parts[0].Tokens {
			if tok.Kind == String {
				at := strings.Index(f.Text, parts[0].Text[tok.From:tok.To])
				if f.Position(at) != tok.From {
					t.Errorf("%s: token %d is at %d, not %d", text, i, f.Position(at), tok.From)
				}
			}
		}
	}
}

func TestCommandsAreUnderstood(t *testing.T) {
	for text, want := range map[string]string{
		"SET timezone='UTC'": "Set{Name:timezone Values:[UTC] Local:false Default:false}", "set time zone 'Europe/Berlin'": "Set{Name:timezone Values:[Europe/Berlin] Local:false Default:false}",
		"SET LOCAL statement_timeout TO 5": "Set{Name:statement_timeout Values:[5] Local:true Default:false}", "set session search_path = a, \"B\"": "Set{Name:search_path Values:[a B] Local:false Default:false}",
		"set extra_float_digits = -3": "Set{Name:extra_float_digits Values:[-3] Local:false Default:false}", "set x to default": "Set{Name:x Values:[] Local:false Default:true}", "SET streambed.as_of = '2020-01-01'": "Set{Name:streambed.as_of Values:[2020-01-01] Local:false Default:false}",
		"set names 'utf8'": "Set{Name:client_encoding Values:[utf8] Local:false Default:false}", "show transaction isolation level": "Show{Name:transaction_isolation}", "SHOW TIME ZONE": "Show{Name:timezone}", "show all": "Show{Name:all}", "RESET ALL": "Reset{Name:all}",
		"begin": "Begin{Write:false}", "START TRANSACTION READ WRITE": "Begin{Write:true}", "begin transaction isolation level serializable read only": "Begin{Write:false}", "COMMIT": "End{Commit:true Chain:false}", "end work": "End{Commit:true Chain:false}", "rollback and chain": "End{Commit:false Chain:true}",
		"rollback to savepoint A": "RollbackTo{Name:a}", "savepoint \"X\"": "Savepoint{Name:X}", "release x": "ReleaseSavepoint{Name:x}", "DISCARD ALL": "Discard{What:all}", "deallocate all": "Deallocate{Name:}", "deallocate prepare P": "Deallocate{Name:p}",
		"fetch 10 from c": "Fetch{Name:c Count:10 Move:false}", "FETCH ALL IN c": "Fetch{Name:c Count:-1 Move:false}", "fetch next c": "Fetch{Name:c Count:1 Move:false}", "move forward 3 in c": "Fetch{Name:c Count:3 Move:true}", "close all": "CloseCursor{Name:}", "UNLISTEN *": "Nothing{Tag:UNLISTEN}",
		"set transaction read only": "SetTransaction{Session:false Write:false}", "set session characteristics as transaction read write": "SetTransaction{Session:true Write:true}",
	} {
		parts, err := Split(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(parts[0])
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := strings.TrimPrefix(fmt.Sprintf("%T%+v", c, c), "sqltext."); got != want {
			t.Errorf("%s: %s, not %s", text, got, want)
		}
	}
}

func TestWhatIsNoQueryIsNeverTakenForOne(t *testing.T) {
	for _, text := range []string{"insert into t values (1)", "create table t(i int)", "attach 'x'", "install x", "load x", "pragma x", "call x()", "export database 'x'", "use x", "copy t to 'x'", "copy (select 1) to program 'x'", "copy t from stdin",
		"explain insert into t values (1)", "declare c cursor for insert into t values (1)", "explain analyze copy (select 1) to 'x'", "do 'x'", "detach x", "describe t", "summarize t", "vacuum", "import database 'x'", "copy (insert into t values (1)) to stdout"} {
		parts, err := Split(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(parts[0])
		if err != nil {
			continue
		}
		if r, refused := c.(Refused); !refused {
			t.Errorf("%s is taken for %T", text, c)
		} else if r.Err.State != "25006" && r.Err.State != "0A000" && r.Err.State != "42501" && r.Err.State != "42601" {
			t.Errorf("%s: SQLSTATE %s", text, r.Err.State)
		}
	}
}

func TestCopyOptions(t *testing.T) {
	for text, want := range map[string]string{
		"copy t to stdout":                         "SELECT * FROM t {0 9 \\N false 0 0 false}",
		"copy s.t (a, \"B\") to stdout csv header": "SELECT a, \"B\" FROM s.t {1 44  true 34 34 false}",
		"COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, DELIMITER ';', NULL 'x', FORCE_QUOTE *)": "SELECT 1 {1 59 x false 34 34 true}",
		"copy (select 1) to stdout (format binary)":                                           "select 1 {2 0  false 0 0 false}",
		"copy (select (1)) to stdout with delimiter '|' null as ''":                           "select (1) {0 124  false 0 0 false}",
	} {
		parts, err := Split(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(parts[0])
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		o, ok := c.(CopyOut)
		if got := fmt.Sprint(o.Query.Text, " ", o.Options); !ok || got != want {
			t.Errorf("%s: %T %s, not %s", text, c, got, want)
		}
	}
}

// FuzzSQLText finds no text that makes the lexer, the splitter or the commands' parser fail otherwise than by an error.
func FuzzSQLText(f *testing.F) {
	for _, s := range []string{"select 1; set x = 'y'", "copy (select 1) to stdout (format csv, delimiter ',')", "declare c cursor for select $1", "prepare p (int, numeric(1,2)) as select $1", "execute p(1, (2))", "explain (analyze, format json) select 1", "fetch -1 from c", "a operator(pg_catalog.~) b", "$a$ x $a$ U&'x' /* /* */ */"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parts, err := Split(s)
		if err != nil {
			return
		}
		for _, p := range parts {
			folded := Fold(p)
			for i := range len(folded.Text) + 1 {
				if at := folded.Position(i); at < 0 || at > len(p.Text) {
					t.Fatalf("position %d of %q is %d of %q", i, folded.Text, at, p.Text)
				}
			}
			if c, err := Parse(p); err == nil {
				if r, ok := c.(Refused); ok && r.Err == nil {
					t.Fatal("refused without a reason")
				}
			}
		}
	})
}
