package duck

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Error is what DuckDB says about a statement.
type Error struct {
	// Kind is DuckDB's name of the error's class, such as "Binder" or "Conversion"; Subtype a finer one or "".
	Kind    string
	Subtype string
	Message string
	// Position is the byte offset in the statement; -1 when unknown.
	Position int
	// Name is the table, column or function that the error is about; "" when none is.
	Name string
	// Object says what Name is missing as: "Table", "Scalar Function", ...; "" when unknown.
	Object string
}

func (e *Error) Error() string { return e.Message }

// parseError reads an error as `SET errors_as_json = true` makes it; other texts are taken as they are.
func parseError(text string) error {
	e := &Error{Message: text, Position: -1}
	if start := strings.IndexByte(text, '{'); start >= 0 {
		var fields map[string]string
		if json.Unmarshal([]byte(text[start:]), &fields) == nil && fields["exception_message"] != "" {
			e.Kind, e.Message, e.Subtype = fields["exception_type"], fields["exception_message"], fields["error_subtype"]
			e.Name, e.Object = fields["name"], fields["type"]
			if p, err := strconv.Atoi(fields["position"]); err == nil {
				e.Position = p
			}
			return e
		}
	}
	if kind, message, ok := strings.Cut(text, " Error: "); ok && !strings.ContainsAny(kind, " \n") {
		e.Kind, e.Message = kind, message
	}
	return e
}

// states are the SQLSTATEs of DuckDB's error classes.
var states = map[string]string{
	"Parser": "42601", "Syntax": "42601", "Catalog": "42704", "Binder": "42P10", "Conversion": "22P02",
	"Out of Range": "22003", "Invalid Input": "22023", "Not implemented": "0A000", "Out of Memory": "53200",
	"INTERRUPT": "57014", "Permission": "42501", "IO": "58030", "TransactionContext": "25000",
	"Mismatch Type": "42804", "Invalid type": "42804", "Constraint": "23000", "Parameter Not Resolved": "42P18",
	"Parameter Not Allowed": "42P02", "Internal": "XX000", "FATAL": "XX000",
}

// SQLState gives the five letters that Postgres would use.
func (e *Error) SQLState() string {
	switch {
	case e.Subtype == "COLUMN_NOT_FOUND":
		return "42703"
	case e.Subtype == "MISSING_ENTRY" && e.Object == "Table":
		return "42P01"
	case e.Subtype == "MISSING_ENTRY" && strings.Contains(e.Object, "Function"):
		return "42883"
	case e.Subtype == "NO_MATCHING_FUNCTION":
		return "42883"
	case e.Kind == "Binder" && strings.HasPrefix(e.Message, "Referenced table"):
		return "42P01"
	case e.Kind == "Conversion" && (strings.Contains(e.Message, "timestamp field") || strings.Contains(e.Message, "date field") || strings.Contains(e.Message, "time field")):
		if strings.Contains(e.Message, "out of range") {
			return "22008"
		}
		return "22007"
	case e.Kind == "Binder" && strings.Contains(e.Message, "mbiguous"):
		return "42702"
	case e.Kind == "Binder" && strings.Contains(e.Message, "must appear in the GROUP BY"):
		return "42803"
	case e.Kind == "Conversion" && strings.Contains(e.Message, "out of range"):
		return "22003"
	case (e.Kind == "Out of Range" || e.Kind == "Invalid Input") && strings.Contains(strings.ToLower(e.Message), "division by zero"):
		return "22012"
	}
	if s, ok := states[e.Kind]; ok {
		return s
	}
	return "XX000"
}
