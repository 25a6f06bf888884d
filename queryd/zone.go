package queryd

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine
)

// loadZone finds a time zone by Postgres' name of it.
func loadZone(name string) (*time.Location, error) {
	switch strings.ToUpper(name) {
	case "UTC", "GMT", "Z", "ZULU", "ETC/UTC", "ETC/GMT":
		return time.UTC, nil
	case "", "LOCAL":
		return nil, fmt.Errorf("no time zone")
	}
	return time.LoadLocation(name)
}

// checkZone gives a zone's name in the case that DuckDB and Go know it by.
func checkZone(v string) (string, error) {
	if zone, err := loadZone(v); err == nil {
		if zone == time.UTC {
			if strings.EqualFold(v, "utc") || v == "Z" || strings.EqualFold(v, "zulu") {
				return "UTC", nil
			}
			return v, nil
		}
		return v, nil
	}
	// Names ignore case: Continent/City_Name.
	parts := strings.Split(strings.ToLower(v), "/")
	for i, p := range parts {
		words := strings.Split(p, "_")
		for k, w := range words {
			if w != "" && w != "of" && w != "es" {
				words[k] = strings.ToUpper(w[:1]) + w[1:]
			}
		}
		parts[i] = strings.Join(words, "_")
	}
	if name := strings.Join(parts, "/"); name != v {
		if _, err := loadZone(name); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("use a name such as UTC or Europe/Berlin")
}
