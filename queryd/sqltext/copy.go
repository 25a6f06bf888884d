package sqltext

import "strings"

// CopyFormat is the format of COPY.
type CopyFormat uint8

// The formats.
const (
	CopyText CopyFormat = iota
	CopyCSV
	CopyBinary
)

// CopyOptions are those of COPY ... TO STDOUT.
type CopyOptions struct {
	Format     CopyFormat
	Delimiter  byte
	Null       string
	Header     bool
	Quote      byte
	Escape     byte
	ForceQuote bool
}

func parseCopy(s *Statement) (Command, error) {
	c := CopyOut{}
	i := 1
	if s.token(1) == "(" {
		depth := 0
		for ; i < len(s.Tokens); i++ {
			switch s.token(i) {
			case "(":
				depth++
			case ")":
				depth--
			}
			if depth == 0 {
				break
			}
		}
		if i >= len(s.Tokens) {
			return nil, s.unexpected(i)
		}
		inner, err := Parse(s.between(2, i))
		if err != nil {
			return nil, err
		}
		q, ok := inner.(Query)
		if !ok {
			return Refused{&Error{"0A000", "COPY sends the rows of a query or of a table", s.Tokens[2].From}}, nil
		}
		c.Query = q.Statement
		i++
	} else {
		for ; i < len(s.Tokens) && s.keyword(i) != "to" && s.keyword(i) != "from"; i++ {
		}
		query, err := tableQuery(s, i)
		if err != nil {
			return nil, err
		}
		c.Query = query
	}
	switch {
	case s.keyword(i) == "from":
		return Refused{&Error{"25006", "cannot execute COPY FROM: this server only reads", s.Tokens[i].From}}, nil
	case s.keyword(i) != "to":
		return nil, s.unexpected(i)
	case s.keyword(i+1) != "stdout":
		return Refused{&Error{"42501", "COPY goes to STDOUT only: this server writes no files and runs no programs", s.Tokens[i].From}}, nil
	}
	var err error
	c.Options, err = parseCopyOptions(s, i+2)
	return c, err
}

// tableQuery makes the query of COPY table [(columns)].
func tableQuery(s *Statement, end int) (Statement, error) {
	part := s.between(1, end)
	list := "*"
	name := part.Text
	for i := range part.Tokens {
		if part.token(i) == "(" {
			name = part.Text[:part.Tokens[i].From]
			inner := part.between(i+1, len(part.Tokens)-1)
			list = inner.Text
			break
		}
	}
	if strings.TrimSpace(name) == "" || strings.TrimSpace(list) == "" {
		return Statement{}, s.unexpected(end)
	}
	statements, err := Split("SELECT " + list + " FROM " + name)
	if err != nil || len(statements) != 1 {
		return Statement{}, s.unexpected(1)
	}
	return statements[0], nil
}

func parseCopyOptions(s *Statement, i int) (CopyOptions, error) {
	o := CopyOptions{}
	set := map[string]string{}
	if s.keyword(i) == "with" {
		i++
	}
	for ; i < len(s.Tokens); i++ {
		word := s.keyword(i)
		value := func() string {
			if next := s.keyword(i + 1); next == "as" {
				i++
			}
			if i+1 >= len(s.Tokens) {
				return ""
			}
			i++
			return Unquote(s.token(i))
		}
		switch word {
		case "format":
			set["format"] = strings.Trim(strings.ToLower(value()), `"`)
		case "csv", "binary":
			set["format"] = word
		case "delimiter", "null", "quote", "escape", "encoding":
			set[word] = value()
		case "header":
			o.Header = true
			if v := s.keyword(i + 1); v == "false" || v == "off" || s.token(i+1) == "0" {
				o.Header = false
			}
			if v := s.token(i + 1); v != "," && v != ")" && v != "" {
				i++
			}
		case "force_quote", "force":
			o.ForceQuote = true
			for i+1 < len(s.Tokens) && s.token(i+1) != "*" {
				if s.token(i+1) == ")" || s.token(i+1) == "," {
					return o, &Error{"0A000", "FORCE_QUOTE is supported for all columns (*) only", s.Tokens[i].From}
				}
				i++
			}
			i++
		case "":
			if t := s.token(i); t != "(" && t != ")" && t != "," {
				return o, s.unexpected(i)
			}
		default:
			return o, &Error{"42601", `option "` + word + `" not recognized`, s.Tokens[i].From}
		}
	}
	return o, o.complete(set)
}

func (o *CopyOptions) complete(set map[string]string) error {
	switch set["format"] {
	case "", "text":
		o.Delimiter, o.Null = '\t', `\N`
	case "csv":
		o.Format, o.Delimiter, o.Quote = CopyCSV, ',', '"'
	case "binary":
		o.Format = CopyBinary
	default:
		return &Error{"22023", `COPY format "` + set["format"] + `" not recognized`, -1}
	}
	one := func(name string, to *byte) error {
		v, ok := set[name]
		if !ok {
			return nil
		}
		if len(v) != 1 {
			return &Error{"0A000", "COPY " + name + " must be a single one-byte character", -1}
		}
		*to = v[0]
		return nil
	}
	if err := one("delimiter", &o.Delimiter); err != nil {
		return err
	}
	if err := one("quote", &o.Quote); err != nil {
		return err
	}
	o.Escape = o.Quote
	if err := one("escape", &o.Escape); err != nil {
		return err
	}
	if v, ok := set["null"]; ok {
		o.Null = v
	}
	if v, ok := set["encoding"]; ok && !strings.EqualFold(strings.ReplaceAll(v, "-", ""), "utf8") {
		return &Error{"0A000", "COPY sends UTF8 only", -1}
	}
	return nil
}
