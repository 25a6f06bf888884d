package oracle

import (
	"fmt"
	"testing"

	"github.com/streambed/streambed/test/postgres"
)

// share is the number of random histories of an ordinary run, beside those that failed once.
const share = 1

// settingsOfServer make deadlocks short and prepared transactions possible.
var settingsOfServer = []string{"max_prepared_transactions=50", "deadlock_timeout=30ms", "log_min_messages=fatal"}

// TestHistories runs random histories; a seed that fails is to be put into TestHistoriesThatFailed.
func TestHistories(t *testing.T) {
	server := postgres.StartForTest(t, settingsOfServer...)
	n := share
	if *histories > 0 {
		n = *histories
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, server, seed, *mode, *lasting) })
	}
}

// TestHistoriesThatFailed runs the seeds that once showed a fault. What is random about a history beside its seed, how
// sessions meet, differs each time; so each fault has a test of its own beside the code, too.
func TestHistoriesThatFailed(t *testing.T) {
	if *histories > 0 {
		t.Skip("other histories were asked for")
	}
	server := postgres.StartForTest(t, settingsOfServer...)
	for name, seed := range map[string]uint64{
		"a column added to a keyless table; a volatile default on a partitioned one; an ALTER between schema and copy": 1,
		"a keyless table rewritten by USING, with deletes of new values before the catalog was looked at":              3,
	} {
		t.Run(name, func(t *testing.T) { run(t, server, seed, *mode, *lasting) })
	}
}
