package rewrite

import "strings"

// renames are functions that DuckDB has under another name, arguments and results being the same.
var renames = map[string]string{
	"json_build_object": "json_object", "jsonb_build_object": "json_object", "json_build_array": "json_array", "jsonb_build_array": "json_array",
	"json_agg": "json_group_array", "jsonb_agg": "json_group_array", "json_object_agg": "json_group_object", "jsonb_object_agg": "json_group_object",
	"to_jsonb": "to_json", "jsonb_array_length": "json_array_length", "jsonb_extract_path": "json_extract_path", "jsonb_extract_path_text": "json_extract_path_text",
	"btrim": "trim", "every": "bool_and", "clock_timestamp": "now", "statement_timestamp": "now", "array_cat": "list_concat", "array_positions": "list_indexof",
	"char_length": "length", "character_length": "length", "octet_length": "strlen",
}

// dateFormats are to_char's patterns for dates and times, the longest first, by strftime's.
var dateFormats = []struct{ pattern, strftime string }{
	{"FMMonth", "%B"}, {"FMDay", "%A"}, {"FMMM", "%-m"}, {"FMDD", "%-d"}, {"FMHH24", "%-H"}, {"FMHH12", "%-I"}, {"YYYY", "%Y"}, {"HH24", "%H"}, {"HH12", "%I"}, {"IYYY", "%G"},
	{"DDD", "%j"}, {"Mon", "%b"}, {"MM", "%m"}, {"DD", "%d"}, {"HH", "%I"}, {"MI", "%M"}, {"SS", "%S"}, {"US", "%f"}, {"MS", "%g"}, {"YY", "%y"}, {"Dy", "%a"}, {"IW", "%V"}, {"ID", "%u"},
	{"AM", "%p"}, {"PM", "%p"}, {"yyyy", "%Y"}, {"mm", "%m"}, {"dd", "%d"}, {"hh24", "%H"}, {"mi", "%M"}, {"ss", "%S"},
}

// strftimeFormat turns a pattern of to_char into one of strftime; false when it holds something that strftime cannot say.
func strftimeFormat(pattern string) (string, bool) {
	var b strings.Builder
next:
	for i := 0; i < len(pattern); {
		if pattern[i] == '"' {
			end := strings.IndexByte(pattern[i+1:], '"')
			if end < 0 {
				return "", false
			}
			b.WriteString(strings.ReplaceAll(pattern[i+1:i+1+end], "%", "%%"))
			i += end + 2
			continue
		}
		for _, f := range dateFormats {
			if strings.HasPrefix(pattern[i:], f.pattern) {
				b.WriteString(f.strftime)
				i += len(f.pattern)
				continue next
			}
		}
		c := pattern[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' {
			return "", false
		}
		if c == '%' {
			b.WriteByte('%')
		}
		b.WriteByte(c)
		i++
	}
	return b.String(), true
}

// toChar turns to_char(date or time, constant pattern) into strftime.
func toChar(n Node, args []any) {
	if len(args) != 2 {
		return
	}
	pattern, _ := args[1].(Node)
	s, ok := child(pattern, "value")["value"].(string)
	if !ok || text(pattern, "class") != "CONSTANT" {
		return
	}
	if format, ok := strftimeFormat(s); ok {
		n["function_name"] = "strftime"
		n["children"] = []any{args[0], Text(format)}
	}
}

// parseDate turns to_timestamp(text, constant pattern) and to_date(text, constant pattern) into strptime. Other patterns
// are left, and so refused as calls of a function that does not exist.
func parseDate(n Node, name string, args []any) {
	pattern, _ := args[1].(Node)
	s, ok := child(pattern, "value")["value"].(string)
	value, isNode := args[0].(Node)
	format, known := strftimeFormat(s)
	if !ok || !isNode || !known || text(pattern, "class") != "CONSTANT" {
		return
	}
	parsed := Call("strptime", Cast(value, SimpleType("VARCHAR")), Text(format))
	alias, place := n["alias"], n["query_location"]
	if name == "to_date" {
		replace(n, Cast(parsed, SimpleType("DATE")))
	} else {
		replace(n, Cast(parsed, SimpleType("TIMESTAMP WITH TIME ZONE")))
	}
	n["alias"], n["query_location"] = alias, place
}
