// Package faults lists what programs of this kind have been seen to get wrong, each with the test that holds it here.
package faults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fault is one known fault, and the test that would fail if we had it.
type fault struct {
	name, folder, test string
}

var known = []fault{
	// Loss and duplicates.
	{"a position is compared by a change's LSN: a transaction open across a restart loses rows", "stages/decoder", "TestATransactionOpenAcrossARestartIsNotLost"},
	{"a position inside a transaction: a kill loses the rest of it", "stages/decoder", "TestEveryCutIsWhole"},
	{"a restart from the newest of the tables' positions, or one that forgets a table with rows in memory", "test/endtoend", "TestKilledAtEveryCommitPointLosesAndDoublesNothing"},
	{"the first row after a resync is skipped", "test/endtoend", "TestALostSlotIsSaidAndResyncAllMends"},
	{"without the local state everything is loaded twice", "test/endtoend", "TestLostKeyIndexAndLostCatalogLoseNothing"},
	{"a replayed column is added twice, a replayed Relation meets an older schema", "test/oracle", "TestHistories"},
	{"the slot is acknowledged before the position is durable", "stages/committer", "TestNothingIsAcknowledgedBeforeItsPartsAreStored"},
	{"an acknowledgement that is put off and forgotten hangs the end of a copy", "stages/decoder", "TestACleanShutdownDoesNotWaitForTheIdleInterval"},
	{"two writers overwrite each other's pointer", "formats/iceberg", "TestForeignWriteIsRefusedThenFollowed"},
	{"two daemons run one pipeline", "test/endtoend", "TestSecondDaemonSaysSoAndDoesNoHarm"},
	{"reconnects are counted for the life of the process, which then ends", "test/endtoend", "TestSourceThatCrashesIsWaitedFor"},

	// Wrong values.
	{"an unchanged TOAST value becomes NULL, a placeholder or a default, in a batch with its insert too", "stages/batcher", "TestUnchangedToastSurvivesEveryWayOfChangingARow"},
	{"a renamed column loses its values, an added one its default, a dropped one comes back", "test/oracle", "TestHistories"},
	{"a table dropped and created again keeps its old rows", "test/endtoend", "TestAnotherTableOfTheSameNameReplacesTheFirst"},
	{"a key change and an insert, or swapped keys, in one batch leave ghost rows", "stages/batcher", "TestKeysThatMoveLeaveNoGhosts"},
	{"without a key, the deletion of one of two twins takes both", "stages/batcher", "TestExactlyOneOfSeveralTwinsIsRemoved"},
	{"keys are compared as text", "formats/types", "TestKeysAreEqualExactlyWhenTheValuesAreAndNoneIsAPrefixOfAnother"},
	{"tables whose names differ by where the dot stands are merged", "formats/storage", "FuzzEncodedNamesStayDistinct"},
	{"names with slashes, spaces, capitals, other scripts or 63 bytes are not quoted", "stages/source", "TestAwkwardNamesAreFoundPublishedAndStreamed"},
	{"uuid as text, bytea as hexadecimal, timestamp as if it were UTC", "formats/parquet", "TestEveryTypeReadsBackAsWritten"},
	{"numeric as double, integers as double in the stream alone, jsonb as base64 in the copy alone", "formats/types", "TestRandomValuesDecodeAlikeInBothFormats"},
	{"interval is NULL in the copy alone, arrays of it are dropped", "formats/types", "TestBothFormatsOfARealPostgresDecodeAlike"},
	{"dates: infinity, before Christ, beyond the year 9999", "formats/types", "TestRefusedAndKeyValuesAreErrorsThatSayWhy"},
	{"a session's time zone or DateStyle changes or loses values", "stages/source", "TestSettingsArePinnedOverRolesAndURLs"},
	{"NaN and infinities in numeric, more than 38 digits", "formats/types", "TestNumericRoundsHalfEvenAndCounts"},
	{"a partition added later with its columns in another order", "stages/decoder", "TestPartitionsComeAsTheirRoot"},
	{"a partitioned table is named and nothing is captured", "stages/source", "TestPartitionsComeUnderTheirRoot"},
	{"generated columns are in the copy and not in the stream", "stages/source", "TestColumnsAreThoseTheStreamSends"},
	{"a row filter or column list holds for the stream and not for the copy", "test/endtoend", "TestAUsersPublicationIsHonoured"},
	{"rows written while a table was out of its publication are missing for good", "test/endtoend", "TestATableTakenOutOfThePublicationAndPutBackIsCopiedAnew"},
	{"the key or the replica identity changes, and rows are looked for by the old one", "test/endtoend", "TestAnotherKeyOrIdentityIsFollowed"},

	// One table stops all.
	{"a table's own error ends the pipeline", "stages/committer", "TestOneTablesValueErrorSetsItAsideAndTheRestGoesOn"},
	{"a change that the lake cannot make ends the pipeline", "stages/committer", "TestAChangeTheLakeCannotMakeSetsItsTableAside"},
	{"a change of type, or a column dropped and added with another, ends the pipeline", "test/oracle", "TestHistories"},

	// Reading.
	{"equality deletes pile up and are read again and again", "formats/iceberg", "TestReaderResolvesIncrementally"},
	{"metadata is rewritten with every snapshot there ever was", "formats/iceberg", "TestOldSchemasLeaveWithTheirSnapshots"},
	{"a commit's cost grows, or it lists and reads the store", "formats/iceberg", "TestSteadyCommitPutsFewAndGetsNothing"},

	// Source.
	{"an idle publication keeps WAL", "stages/source", "TestTheStreamReachesThePositionOfAnIdleSource"},
	{"the source's statements are blocked or made to fail", "stages/source", "TestAddingATableUnderAConflictingLockTimesOutAndBlocksNobody"},
	{"a snapshot is lost with its connection, and the copy fails for ever", "test/endtoend", "TestKilledAgainAndAgainLosesAndDoublesNothing"},
	{"a publication that is dropped stops the stream for ever, or loses changes in silence", "test/endtoend", "TestOurPublicationDroppedHealsByItself"},
	{"a slot made while tables are altered cannot be decoded, or leaves columns out", "stages/source", "TestASlotMadeDuringDDLDecodesWhatWasAltered"},

	// Query server.
	{"statements run at Parse, parameters are dropped", "queryd", "TestPgxReadsAndBindsEveryType"},
	{"a result is held in memory whole", "queryd", "TestResultsStreamInBoundedMemory"},
	{"cancel is ignored", "queryd", "TestCancelEndsTheStatementAndNotTheSession"},
	{"a password is asked for and not checked", "queryd", "TestOnlyUsersWithTheirPasswordGetIn"},
	{"there is no TLS", "queryd", "TestPsqlOverTLS"},
	{"backslash commands, SHOW, SET and DISCARD fail", "queryd", "TestPsqlsCommandsDescribeTheLake"},
	{"the SQLSTATE is always the same", "queryd", "TestErrorsPointAtTheirPlace"},
	{"a client can read and write the host's files", "queryd", "TestSQLUserCannotLeave"},

	// Configuration.
	{"flags are taken and ignored", "cmd/internal/config", "TestFlagBeatsEnvironmentBeatsFileBeatsDefault"},
	{"bad numbers are ignored", "cmd/internal/config", "TestProblemsNameLineKeyAndRemedy"},
	{"a default place for data that its metadata does not name", "formats/storage", "TestWarehousesThatReadersMisunderstandAreRefused"},
}

// TestEachKnownFaultIsHeldByATest: the table names tests that exist.
func TestEachKnownFaultIsHeldByATest(t *testing.T) {
	tests := map[string]map[string]bool{}
	for _, f := range known {
		if tests[f.folder] == nil {
			tests[f.folder] = functions(t, filepath.Join("..", "..", filepath.FromSlash(f.folder)))
		}
		if !tests[f.folder][f.test] {
			t.Errorf("%s: %s has no %s", f.name, f.folder, f.test)
		}
	}
}

// functions lists the top-level functions of a folder's test files and of the folders below it.
func functions(t *testing.T, folder string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil {
				found[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
