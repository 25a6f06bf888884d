package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// parsePostgres checks a postgres:// URL. Its errors never show the URL, which may hold a password.
func parsePostgres(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return "", fmt.Errorf("not a Postgres URL; write postgres://user@host:5432/database")
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("not a valid URL (%s); write postgres://user@host:5432/database and percent-encode special characters in user and password", urlReason(err))
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", fmt.Errorf("has bad parameters after the question mark; write them as ?name=value&name=value")
	}
	if u.Hostname() == "" && query.Get("host") == "" {
		return "", fmt.Errorf("names no host; write postgres://user@host:5432/database")
	}
	if u.User.Username() == "" && query.Get("user") == "" {
		return "", fmt.Errorf("names no user; write postgres://user@host:5432/database")
	}
	if strings.Trim(u.Path, "/") == "" && query.Get("dbname") == "" && query.Get("database") == "" {
		return "", fmt.Errorf("names no database; write postgres://user@host:5432/database")
	}
	if mode := query.Get("sslmode"); mode != "" && !slices.Contains(sslModes, mode) {
		return "", fmt.Errorf("sslmode=%s is unknown; use one of %s", mode, strings.Join(sslModes, ", "))
	}
	return text, nil
}

// urlReason is what url.Parse complains of, without the URL.
func urlReason(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		if strings.Contains(u.Err.Error(), "invalid port") {
			return "the port is not a number"
		}
		if strings.Contains(u.Err.Error(), "userinfo") {
			return "a special character in user or password"
		}
		if strings.Contains(u.Err.Error(), "escape") {
			return "a % that is not followed by two hexadecimal digits"
		}
	}
	return "it cannot be parsed"
}

// withPassword gives a Postgres URL a password. It was checked by parsePostgres.
func withPassword(text, password string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	user := u.User.Username()
	if query := u.Query(); user == "" {
		query.Set("password", password)
		u.RawQuery = query.Encode()
		return u.String()
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// hasPassword reports whether a Postgres URL holds a password.
func hasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}

// parseWarehouse checks the folder or bucket below which tables live.
func parseWarehouse(text string) (string, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case !ok && filepath.IsAbs(text):
		return "", fmt.Errorf("%q lacks its scheme; write file://%s", text, text)
	case !ok:
		return "", fmt.Errorf("%q is not a warehouse; write file:///absolute/folder or s3://bucket/prefix", text)
	case scheme == "file":
		if !strings.HasPrefix(rest, "/") {
			return "", fmt.Errorf("%q is a relative path; write file:// and an absolute one, such as file:///var/lib/streambed/warehouse", text)
		}
		clean := filepath.Clean(rest)
		if clean == "/" {
			return "", fmt.Errorf("%q is the root of the file system; name a folder for the warehouse", text)
		}
		if strings.ContainsAny(clean, "?#%") {
			return "", fmt.Errorf("%q holds one of ? # %%, which other engines read as part of a URL; choose a folder without", text)
		}
		return "file://" + clean, nil
	case scheme == "s3":
		bucket, prefix, _ := strings.Cut(rest, "/")
		if bucket == "" {
			return "", fmt.Errorf("%q names no bucket; write s3://bucket/prefix", text)
		}
		if strings.ContainsAny(rest, "?#%@: ") {
			return "", fmt.Errorf("%q holds a character that no bucket or prefix should; write s3://bucket/prefix, and endpoint and keys under s3:", text)
		}
		return strings.TrimRight("s3://"+bucket+"/"+strings.Trim(prefix, "/"), "/"), nil
	}
	return "", fmt.Errorf("scheme %q is unknown; write file:///absolute/folder or s3://bucket/prefix", scheme)
}

// parseCatalog checks the catalog's URI. It does not show it, which may hold a password.
func parseCatalog(text string) (string, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return "", fmt.Errorf("not a catalog; write sqlite:///absolute/catalog.db or postgres://user@host:5432/database")
	}
	switch scheme {
	case "sqlite", "duckdb":
		if !strings.HasPrefix(rest, "/") {
			return "", fmt.Errorf("%q is a relative path; write %s:// and an absolute one, such as %s:///var/lib/streambed/catalog.db", text, scheme, scheme)
		}
		clean := filepath.Clean(rest)
		if clean == "/" || strings.HasSuffix(rest, "/") {
			return "", fmt.Errorf("%q names a folder; name the catalog's file, such as %s:///var/lib/streambed/catalog.db", text, scheme)
		}
		return scheme + "://" + clean, nil
	case "postgres", "postgresql":
		return parsePostgres(text)
	case "http", "https":
		if u, err := url.Parse(text); err != nil || u.Hostname() == "" {
			return "", fmt.Errorf("not a valid URL; write http://host:8181 or https://host/path")
		}
		return text, nil
	case "rest":
		return "", fmt.Errorf("a REST catalog is named by its own URL; write http://%s or https://%s", rest, rest)
	}
	return "", fmt.Errorf("scheme %q is unknown; write sqlite:///absolute/catalog.db or postgres://user@host:5432/database", scheme)
}

// parseEndpoint checks an S3 server's URL; "" is Amazon's.
func parseEndpoint(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", fmt.Errorf("not the URL of an S3 server; write http://host:9000 or https://host")
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("%q holds more than scheme, host and port; the bucket belongs in lake.warehouse, the keys in s3.access_key and s3.secret_key", u.Redacted())
	}
	return u.Scheme + "://" + u.Host, nil
}
