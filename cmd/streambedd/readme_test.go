package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/streambed/streambed/cmd/internal/config"
)

var rewrite = flag.Bool("rewrite", false, "write the README's table of keys anew")

// keyTable is the README's table of all keys.
func keyTable() string {
	var out strings.Builder
	out.WriteString("| key | default | flag | meaning |\n|---|---|---|---|\n")
	keys := config.Keys()
	known := map[string]bool{}
	for _, k := range keys {
		known[k.Path] = true
	}
	for _, k := range keys {
		if base, twin := strings.CutSuffix(k.Path, "_file"); twin && known[base] {
			continue
		}
		name, value, option := "`"+k.Path+"`", "", ""
		if known[k.Path+"_file"] {
			name += " *"
		}
		if k.Default != "" {
			value = "`" + k.Default + "`"
		}
		if k.Flag != "" {
			option = "`--" + k.Flag + "`"
		}
		out.WriteString("| " + name + " | " + value + " | " + option + " | " + k.Help + " |\n")
	}
	return out.String()
}

func TestREADMEListsEveryKeyWithItsDefault(t *testing.T) {
	const path = "../../README.md"
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	_, after, ok := strings.Cut(text, "<!-- keys: ")
	table, _, ok2 := strings.Cut(after, "<!-- /keys -->")
	_, table, ok3 := strings.Cut(table, "-->\n")
	if !ok || !ok2 || !ok3 {
		t.Fatal("the README has lost the marks around its table of keys")
	}
	if want := keyTable(); table != want {
		if !*rewrite {
			t.Fatalf("the README's table of keys is out of date; run this test with -rewrite\nhave\n%s\nwant\n%s", table, want)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(text, "-->\n"+table+"<!-- /keys -->", "-->\n"+want+"<!-- /keys -->", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
