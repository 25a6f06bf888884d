package lsn

import "testing"

func TestParseReadsWhatStringWrites(t *testing.T) {
	for text, want := range map[string]LSN{"0/0": 0, "16/B374D848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": 1<<64 - 1, "0/16b3748": 0x16B3748} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s read as %v, %v", text, got, err)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%v does not read back: %v, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "0", "/", "0/", "/0", "0/0/0", "100000000/0", "0/100000000", "g/0", "-1/0", " 0/0", "0x1/0"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q read as %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("16/B374D848")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(l.String()); err != nil || again != l {
			t.Fatalf("%q read as %v, which reads back as %v, %v", text, l, again, err)
		}
	})
}
