package sqltext

import "strings"

// settingName reads a setting's name from token i on, with its special spellings, and tells the token after it.
func (s *Statement) settingName(i int) (string, int, error) {
	switch {
	case s.keyword(i) == "time" && s.keyword(i+1) == "zone":
		return "timezone", i + 2, nil
	case s.keyword(i) == "session" && s.keyword(i+1) == "authorization":
		return "session_authorization", i + 2, nil
	case s.keyword(i) == "transaction" && s.keyword(i+1) == "isolation":
		return "transaction_isolation", i + 3, nil
	case s.keyword(i) == "names":
		return "client_encoding", i + 1, nil
	case !s.isName(i):
		return "", i, s.unexpected(i)
	}
	name := Name(s.token(i))
	for i++; s.token(i) == "." && s.isName(i+1); i += 2 {
		name += "." + Name(s.token(i+1))
	}
	return strings.ToLower(name), i, nil
}

func parseShow(s *Statement) (Command, error) {
	name, end, err := s.settingName(1)
	if err == nil && end < len(s.Tokens) {
		err = s.unexpected(end)
	}
	return Show{name}, err
}

func parseSet(s *Statement) (Command, error) {
	c := Set{}
	i := 1
	switch s.keyword(i) {
	case "local":
		c.Local = true
		i++
	case "session":
		if s.keyword(i+1) == "characteristics" {
			return SetTransaction{Session: true, Write: s.asksToWrite()}, nil
		}
		if s.keyword(i+1) != "authorization" {
			i++
		}
	case "transaction":
		return SetTransaction{Write: s.asksToWrite()}, nil
	case "role":
		return Set{Name: "role", Values: s.values(2)}, nil
	}
	name, next, err := s.settingName(i)
	if err != nil {
		return nil, err
	}
	c.Name, i = name, next
	if s.token(i) == "=" || s.keyword(i) == "to" {
		i++
	}
	if i >= len(s.Tokens) {
		return nil, s.unexpected(i)
	}
	if s.keyword(i) == "default" || c.Name == "timezone" && s.keyword(i) == "local" {
		c.Default = true
		return c, nil
	}
	c.Values = s.values(i)
	return c, nil
}

// values reads a list of constants and words, separated by commas.
func (s *Statement) values(i int) []string {
	var values []string
	sign := ""
	for ; i < len(s.Tokens); i++ {
		t := s.token(i)
		switch s.Tokens[i].Kind {
		case String:
			t = Unquote(t)
		case Quoted:
			t = Name(t)
		case Symbol:
			if t == "-" {
				sign = "-"
			}
			continue
		}
		values = append(values, sign+t)
		sign = ""
	}
	return values
}
