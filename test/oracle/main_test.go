package oracle

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	histories = flag.Int("histories", 0, "run this many random histories instead of the short share")
	firstSeed = flag.Uint64("seed", 100, "seed of the first history; each further one adds 1")
	lasting   = flag.Duration("lasting", 1500*time.Millisecond, "how long each of a history's phases of traffic lasts")
	mode      = flag.String("mode", "dv", "how the lake stores deletes: dv, mor, cow, or any: another one at each start; ducklake for the other format, which any takes for some histories")
)

// childVariable holds the settings of a pipeline when this binary was started as one.
const childVariable = "STREAMBED_ORACLE_PIPELINE"

func TestMain(m *testing.M) {
	if settings := os.Getenv(childVariable); settings != "" {
		os.Exit(runChild(settings))
	}
	os.Exit(m.Run())
}
