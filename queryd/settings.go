package queryd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/queryd/pgtext"
	"github.com/streambed/streambed/queryd/values"
)

// setting is one that a client may see. check gives the value's canonical form; nil means that it cannot be changed.
type setting struct {
	initial string
	check   func(string) (string, error)
	// report names the ParameterStatus that tells the client of it, "" for none.
	report string
	// list keeps the commas of a list of values.
	list bool
}

// known are all settings. What is not among them, or not changeable, is refused: SET never reaches DuckDB (promise 12).
var known = map[string]*setting{
	"application_name":                    {check: anyText, report: "application_name"},
	"client_encoding":                     {initial: "UTF8", check: checkEncoding, report: "client_encoding"},
	"datestyle":                           {initial: "ISO, MDY", check: checkDateStyle, report: "DateStyle", list: true},
	"intervalstyle":                       {initial: "postgres", check: oneOf("postgres", "iso_8601"), report: "IntervalStyle"},
	"timezone":                            {initial: "UTC", check: checkZone, report: "TimeZone"},
	"standard_conforming_strings":         {initial: "on", check: only("on"), report: "standard_conforming_strings"},
	"server_version":                      {initial: serverVersion, report: "server_version"},
	"server_encoding":                     {initial: "UTF8", report: "server_encoding"},
	"integer_datetimes":                   {initial: "on", report: "integer_datetimes"},
	"is_superuser":                        {initial: "off", report: "is_superuser"},
	"session_authorization":               {report: "session_authorization"},
	"in_hot_standby":                      {initial: "off", report: "in_hot_standby"},
	"default_transaction_read_only":       {initial: "on", check: only("on"), report: "default_transaction_read_only"},
	"server_version_num":                  {initial: serverVersionNum},
	"transaction_read_only":               {initial: "on", check: only("on")},
	"transaction_isolation":               {initial: "repeatable read", check: oneOf("repeatable read", "read committed", "read uncommitted", "serializable")},
	"default_transaction_isolation":       {initial: "repeatable read", check: oneOf("repeatable read", "read committed", "read uncommitted", "serializable")},
	"default_transaction_deferrable":      {initial: "off", check: checkBool},
	"transaction_deferrable":              {initial: "off", check: checkBool},
	"search_path":                         {initial: `"$user", public`, check: anyText, list: true},
	"extra_float_digits":                  {initial: "1", check: checkInt(-15, 3)},
	"bytea_output":                        {initial: "hex", check: only("hex")},
	"xmlbinary":                           {initial: "base64", check: oneOf("base64", "hex")},
	"xmloption":                           {initial: "content", check: oneOf("content", "document")},
	"statement_timeout":                   {initial: "0", check: checkDuration},
	"lock_timeout":                        {initial: "0", check: checkDuration},
	"idle_in_transaction_session_timeout": {initial: "0", check: checkDuration},
	"idle_session_timeout":                {initial: "0", check: checkDuration},
	"transaction_timeout":                 {initial: "0", check: checkDuration},
	"client_min_messages":                 {initial: "notice", check: anyText},
	"row_security":                        {initial: "on", check: checkBool},
	"role":                                {initial: "none", check: only("none")},
	"synchronize_seqscans":                {initial: "on", check: checkBool},
	"jit":                                 {initial: "off", check: checkBool},
	"geqo":                                {initial: "on", check: checkBool},
	"plan_cache_mode":                     {initial: "auto", check: oneOf("auto", "force_custom_plan", "force_generic_plan")},
	"quote_all_identifiers":               {initial: "off", check: checkBool},
	"escape_string_warning":               {initial: "on", check: checkBool},
	"backslash_quote":                     {initial: "safe_encoding", check: anyText},
	"lc_monetary":                         {initial: "C", check: only("C")},
	"lc_messages":                         {initial: "C", check: anyText},
	"lc_collate":                          {initial: "C"},
	"lc_ctype":                            {initial: "C.UTF-8"},
	"max_identifier_length":               {initial: "63"},
	"max_index_keys":                      {initial: "32"},
	"default_table_access_method":         {initial: "heap"},
	"default_tablespace":                  {check: anyText},
	"block_size":                          {initial: "8192"},
	"wal_level":                           {initial: "replica"},
	"max_connections":                     {initial: "100"},
	"ssl":                                 {initial: "off"},
	"streambed.as_of":                     {check: checkAsOf},
	"streambed.wait_for_lsn":              {check: checkLSN},
	"streambed.wait_timeout":              {initial: "30s", check: checkWait},
	"streambed.allow_stale":               {initial: "off", check: checkBool},
}

const (
	serverVersion    = "15.0 (Streambed)"
	serverVersionNum = "150000"
)

func anyText(v string) (string, error) { return v, nil }

func only(value string) func(string) (string, error) { return oneOf(value) }

func oneOf(allowed ...string) func(string) (string, error) {
	return func(v string) (string, error) {
		low := strings.ToLower(v)
		if slices.Equal(allowed, []string{"on"}) {
			if b, err := checkBool(v); err == nil {
				low = b
			}
		}
		if !slices.Contains(allowed, low) {
			for _, a := range allowed {
				if strings.EqualFold(a, v) {
					return a, nil
				}
			}
			return "", fmt.Errorf("this server allows %s", strings.Join(allowed, ", "))
		}
		return low, nil
	}
}

func checkBool(v string) (string, error) {
	switch strings.ToLower(v) {
	case "on", "true", "yes", "1", "t", "y":
		return "on", nil
	case "off", "false", "no", "0", "f", "n":
		return "off", nil
	}
	return "", fmt.Errorf("write on or off")
}

func checkInt(least, most int) func(string) (string, error) {
	return func(v string) (string, error) {
		i, err := strconv.Atoi(v)
		if err != nil || i < least || i > most {
			return "", fmt.Errorf("write a whole number from %d to %d", least, most)
		}
		return strconv.Itoa(i), nil
	}
}

func checkEncoding(v string) (string, error) {
	switch strings.ToUpper(strings.NewReplacer("-", "", "_", "").Replace(v)) {
	case "UTF8", "UNICODE":
		return "UTF8", nil
	}
	return "", fmt.Errorf("this server speaks UTF8 only")
}

// checkDateStyle takes ISO output only; the order of day and month says how input is read, which DuckDB always reads as
// year, month, day.
func checkDateStyle(v string) (string, error) {
	order := "MDY"
	for _, word := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch w := strings.ToUpper(word); w {
		case "ISO":
		case "MDY", "DMY", "YMD":
			order = w
		default:
			return "", fmt.Errorf("this server writes dates in ISO style only")
		}
	}
	return "ISO, " + order, nil
}

func checkLSN(v string) (string, error) {
	if v == "" {
		return "", nil
	}
	l, err := lsn.Parse(v)
	if err != nil {
		return "", err
	}
	return l.String(), nil
}

// checkDuration reads Postgres' spelling: a number of milliseconds, or one with a unit.
func checkDuration(v string) (string, error) {
	if _, err := parseDuration(v); err != nil {
		return "", err
	}
	return v, nil
}

func checkWait(v string) (string, error) {
	d, err := parseDuration(v)
	if err == nil && (d <= 0 || d > time.Hour) {
		err = fmt.Errorf("write a time between 1ms and 1h")
	}
	return v, err
}

func parseDuration(v string) (time.Duration, error) {
	digits := strings.TrimRight(v, "abcdefghijklmnopqrstuvwxyz ")
	unit, ok := map[string]time.Duration{"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[strings.TrimSpace(v[len(digits):])]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok || n < 0 || n > 1e12 {
		return 0, fmt.Errorf("write a number of milliseconds, or one with the unit us, ms, s, min, h or d")
	}
	return time.Duration(n * float64(unit)), nil
}

// settings are a session's values.
type settings struct {
	session *session
	// start are the values the session began with, base those that outlive the transaction block, current those in force.
	begin, base, current map[string]string
	// undo are base's values when the transaction block began.
	undo map[string]string
	zone *time.Location
}

func newSettings(n *session) *settings {
	s := &settings{session: n, begin: map[string]string{}, zone: time.UTC}
	for name, k := range known {
		s.begin[name] = k.initial
	}
	s.begin["session_authorization"] = n.user
	s.begin["max_connections"] = strconv.Itoa(n.server.options.MaxConnections)
	s.begin["streambed.wait_timeout"] = strconv.FormatInt(n.server.options.WaitTimeout.Milliseconds(), 10) + "ms"
	if d := n.server.options.StatementTimeout; d > 0 {
		s.begin["statement_timeout"] = strconv.FormatInt(d.Milliseconds(), 10)
	}
	s.base, s.current = maps.Clone(s.begin), maps.Clone(s.begin)
	return s
}

// startUp takes the settings of a startup message: its own parameters and the -c options.
func (s *settings) startUp(parameters map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		switch value := parameters[name]; name {
		case "user", "database":
		case "replication":
			if b, err := checkBool(value); err != nil || b == "on" {
				return failf("0A000", "this server has no replication: stream from the source database")
			}
		case "options":
			for option, value := range parseOptions(value) {
				if err := s.startWith(option, value); err != nil {
					return err
				}
			}
		default:
			if err := s.startWith(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *settings) startWith(name, value string) error {
	name = strings.ToLower(name)
	canonical, err := s.check(name, value)
	if err != nil {
		return err
	}
	s.begin[name], s.base[name], s.current[name] = canonical, canonical, canonical
	return s.apply(name)
}

// parseOptions reads "-c name=value --name=value"; a backslash keeps a space.
func parseOptions(options string) map[string]string {
	var words []string
	word, open := strings.Builder{}, false
	for i := 0; i < len(options); i++ {
		switch c := options[i]; {
		case c == '\\' && i+1 < len(options):
			i++
			word.WriteByte(options[i])
			open = true
		case c == ' ' || c == '\t' || c == '\n':
			if open {
				words = append(words, word.String())
				word.Reset()
			}
			open = false
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if open {
		words = append(words, word.String())
	}
	set := map[string]string{}
	for _, w := range words {
		w = strings.TrimPrefix(strings.TrimPrefix(w, "--"), "-c")
		if name, value, ok := strings.Cut(w, "="); ok {
			set[strings.ReplaceAll(name, "-", "_")] = value
		}
	}
	return set
}

func (s *settings) check(name, value string) (string, error) {
	k := known[name]
	if k == nil {
		return "", failf("42704", "unrecognized configuration parameter %q: this server takes the settings that SHOW ALL lists", name)
	}
	if k.check == nil {
		return "", failf("55P02", "parameter %q cannot be changed", name)
	}
	canonical, err := k.check(value)
	if err != nil {
		return "", failf("22023", "invalid value for parameter %q: %q: %s", name, value, err)
	}
	return canonical, nil
}

// set changes a setting, with local until the end of the transaction block only.
func (s *settings) set(name string, list []string, local bool) error {
	value := strings.Join(list, ", ")
	if k := known[name]; k != nil && !k.list && len(list) > 1 {
		return failf("22023", "SET %s takes only one argument", name)
	}
	canonical, err := s.check(name, value)
	if err != nil {
		return err
	}
	return s.assign(name, canonical, local)
}

// reset restores the value that the session began with.
func (s *settings) reset(name string, local bool) error {
	k := known[name]
	switch {
	case k == nil:
		return failf("42704", "unrecognized configuration parameter %q", name)
	case k.check == nil && name != "session_authorization":
		return failf("55P02", "parameter %q cannot be changed", name)
	}
	return s.assign(name, s.begin[name], local)
}

func (s *settings) assign(name, value string, local bool) error {
	before := s.current[name]
	s.current[name] = value
	if err := s.apply(name); err != nil {
		s.current[name] = before
		return err
	}
	if !local {
		s.base[name] = value
	}
	if before != value {
		s.tell(name)
	}
	return nil
}

func (s *settings) resetAll() {
	for name, k := range known {
		if k.check != nil {
			_ = s.assign(name, s.begin[name], false)
		}
	}
}

// apply does what a new value asks for.
func (s *settings) apply(name string) error {
	if name == "timezone" {
		zone, err := loadZone(s.current[name])
		if err != nil {
			return failf("22023", "invalid value for parameter \"TimeZone\": %q", s.current[name])
		}
		s.zone = zone
	}
	return nil
}

// beginBlock, endBlock: what a transaction block set is undone when it rolls back, and what it set locally in any case.
func (s *settings) beginBlock() { s.undo = maps.Clone(s.base) }

func (s *settings) endBlock(commit bool) {
	if s.undo != nil && !commit {
		s.base = s.undo
	}
	s.undo = nil
	for name, value := range s.base {
		if s.current[name] != value {
			s.current[name] = value
			_ = s.apply(name)
			s.tell(name)
		}
	}
}

func (s *settings) get(name string) string { return s.current[name] }

func (s *settings) on(name string) bool { return s.current[name] == "on" }

func (s *settings) statementTimeout() time.Duration {
	d, _ := parseDuration(s.current["statement_timeout"])
	return d
}

func (s *settings) waitTimeout() time.Duration {
	d, _ := parseDuration(s.current["streambed.wait_timeout"])
	return d
}

// style gives what the settings say about how values are written.
func (s *settings) style() values.Style {
	style := values.Style{Zone: s.zone}
	if s.current["intervalstyle"] == "iso_8601" {
		style.Interval = pgtext.IntervalISO
	}
	return style
}
