package rewrite

// The types that stand for objects of the catalog.
var objectTypes = map[string]string{
	"regclass": "regclass", "regtype": "regtype", "regproc": "regproc", "regprocedure": "regproc", "regoper": "regproc", "regoperator": "regproc",
	"regnamespace": "regnamespace", "regrole": "regrole", "regconfig": "regproc", "regdictionary": "regproc",
}

func objectType(n Node) string {
	if text(n, "class") != "CAST" {
		return ""
	}
	t := child(n, "cast_type")
	if text(t, "id") != "UNBOUND" {
		return ""
	}
	return objectTypes[text(child(t, "type_info"), "name")]
}

// objectName expands a cast to one of them: of a text (a name) to the OID, of anything else (an OID) to the name, which is
// how clients use them. It is nil for other casts.
func (q *Query) objectName(n Node) Node {
	if kind := objectType(n); kind != "" {
		of := child(n, "child")
		q.qualify([]Node{of})
		if objectType(of) != "" {
			return of
		}
		if isText(of) {
			return q.env.Expand("", "streambed_"+kind+"_oid", []Node{of})
		}
		return q.env.Expand("", "streambed_"+kind+"_name", []Node{of})
	}
	// 'table'::regclass::text is the name again.
	inner := child(n, "child")
	if kind := objectType(inner); kind != "" && text(child(n, "cast_type"), "id") == "VARCHAR" && isText(child(inner, "child")) {
		oid := q.env.Expand("", "streambed_"+kind+"_oid", []Node{child(inner, "child")})
		return q.env.Expand("", "streambed_"+kind+"_name", []Node{oid})
	}
	return nil
}

// isText tells an expression that is a text for sure, or a parameter.
func isText(n Node) bool {
	switch text(n, "class") {
	case "CONSTANT":
		_, is := child(n, "value")["value"].(string)
		return is
	case "PARAMETER":
		return true
	case "CAST":
		return text(child(n, "cast_type"), "id") == "VARCHAR"
	case "FUNCTION":
		name := text(n, "function_name")
		return name == "||" || name == "quote_ident" || name == "concat" || name == "format"
	}
	return false
}
