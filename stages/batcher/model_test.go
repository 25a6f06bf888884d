package batcher

import (
	"fmt"
	"math/rand"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/stages/message"
)

func insert(id, v, big string) change {
	return change{op: message.Insert, new: tuple(id, v, big)}
}

func update(id, v, big string) change {
	return change{op: message.Update, new: tuple(id, v, big)}
}

func move(from, id, v, big string) change {
	return change{op: message.Update, kind: 'K', old: tuple(from, "NULL", "NULL"), new: tuple(id, v, big)}
}

func remove(id string) change {
	return change{op: message.Delete, kind: 'K', old: tuple(id, "NULL", "NULL")}
}

// live makes a fixture whose table is published and follows the stream.
func live(t *testing.T, kind formats.KeyKind, mode ...iceberg.Mode) *fixture {
	f := newFixture(t, kind, formats.Copying, mode...)
	if err := f.b.StartCopy(f.ctx, f.b.state.Table, f.schema, "", formats.CopyState{Low: 1}, kind != formats.KeyPrimary); err != nil {
		t.Fatal(err)
	}
	if _, err := f.b.FinishCopy(f.ctx, 1); err != nil {
		t.Fatal(err)
	}
	f.cut()
	if f.b.Copying() {
		t.Fatal("the table is still being copied")
	}
	return f
}

func TestUnchangedToastSurvivesEveryWayOfChangingARow(t *testing.T) {
	f := live(t, formats.KeyPrimary)
	f.send(insert("1", "a", "large"), insert("2", "b", "huge"), insert("3", "c", "NULL"))
	f.cut()
	f.send(update("1", "a2", "same"))
	f.send(update("1", "a3", "same"), move("2", "20", "b2", "same"))
	f.cut()
	f.expect([]string{"1|a3|large", "20|b2|huge", "3|c|NULL"})
	f.send(insert("4", "d", "new"), update("4", "d2", "same"), move("4", "5", "d3", "same"), update("3", "c2", "same"))
	f.send(update("1", "a4", "larger"), update("1", "a5", "same"), remove("20"), insert("20", "z", "other"))
	f.cut()
	f.expect([]string{"1|a5|larger", "20|z|other", "3|c2|NULL", "5|d3|new"})
	f.reopen()
	f.send(update("5", "d4", "same"), move("1", "3000", "a6", "same"))
	f.cut()
	f.expect([]string{"3000|a6|larger", "20|z|other", "3|c2|NULL", "5|d4|new"})
}

func TestKeysThatMoveLeaveNoGhosts(t *testing.T) {
	f := live(t, formats.KeyPrimary)
	f.send(insert("30", "x", "30"), insert("31", "y", "31"))
	f.cut()
	f.send(move("30", "9999", "x", "same"), move("31", "30", "y", "same"), move("9999", "31", "x", "same"))
	f.cut()
	f.expect([]string{"30|y|31", "31|x|30"})
	f.send(insert("7", "a", "b"), move("7", "8", "a", "same"), remove("8"), insert("7", "c", "d"))
	f.cut()
	f.expect([]string{"30|y|31", "31|x|30", "7|c|d"})
}

func TestTruncateEmptiesAtItsPlace(t *testing.T) {
	f := live(t, formats.KeyPrimary)
	f.send(insert("1", "a", "x"))
	f.cut()
	f.send(insert("2", "gone", "x"), update("1", "gone", "same"))
	f.deliver(&message.Truncate{Relation: f.relation})
	f.send(insert("1", "after", "y"))
	f.cut()
	f.expect([]string{"1|after|y"})
	f.send(update("1", "later", "same"))
	f.cut()
	f.expect([]string{"1|later|y"})
	f.reopen()
	f.send(remove("1"))
	f.cut()
	f.expect(nil)
}

func TestExactlyOneOfSeveralTwinsIsRemoved(t *testing.T) {
	f := live(t, formats.KeyFullRow)
	full := func(op message.Operation, old, new []byte) change {
		return change{op: op, kind: 'O', old: old, new: new}
	}
	twin := tuple("1", "NULL", "t")
	f.send(change{op: message.Insert, new: twin}, change{op: message.Insert, new: twin}, change{op: message.Insert, new: twin})
	f.cut()
	f.send(full(message.Delete, twin, nil))
	f.cut()
	f.expect([]string{"1|NULL|t", "1|NULL|t"})
	f.send(full(message.Update, twin, tuple("1", "u", "same")), change{op: message.Insert, new: tuple("2", "a", "b")}, full(message.Delete, tuple("2", "a", "b"), nil))
	f.cut()
	f.expect([]string{"1|NULL|t", "1|u|t"})
	f.reopen()
	f.send(full(message.Delete, twin, nil), full(message.Delete, tuple("1", "u", "t"), nil))
	f.cut()
	f.expect(nil)
}

// TestAnyHistoryInAnyCutsGivesTheSourcesRows plays random histories against a map, with random cuts, chunk borders, seals,
// bounds of what is collapsed at a time, and restarts, in one mode of deleting or another at each restart.
func TestAnyHistoryInAnyCutsGivesTheSourcesRows(t *testing.T) {
	for seed := range int64(6) {
		t.Run(strconv.FormatInt(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewSource(seed))
			modes := [][]iceberg.Mode{{"dv"}, {"mor"}, {"cow"}, {"mor"}, {"dv", "mor", "cow"}, {"dv", "mor", "cow"}}[seed]
			f := live(t, formats.KeyPrimary, modes[0])
			limits := []int{1, 3, 8, 1000} // keys collapsed at a time
			f.keys = limits[seed%3]
			f.reopen()
			rows := map[string][2]string{}
			var batch []change
			key := func() string { return strconv.Itoa(random.Intn(25)) }
			word := func() string { return fmt.Sprintf("w%d", random.Intn(1000)) }
			for range 600 {
				k, v, big := key(), word(), word()
				held, exists := rows[k]
				switch p := random.Intn(100); {
				case !exists:
					rows[k] = [2]string{v, big}
					batch = append(batch, insert(k, v, big))
				case p < 40:
					rows[k] = [2]string{v, held[1]}
					batch = append(batch, update(k, v, "same"))
				case p < 55:
					rows[k] = [2]string{v, big}
					batch = append(batch, update(k, v, big))
				case p < 75:
					to := key()
					if _, taken := rows[to]; taken {
						continue
					}
					delete(rows, k)
					rows[to] = [2]string{v, held[1]}
					batch = append(batch, move(k, to, v, "same"))
				case p < 98:
					delete(rows, k)
					batch = append(batch, remove(k))
				default:
					f.send(batch...)
					batch = nil
					clear(rows)
					f.deliver(&message.Truncate{Relation: f.relation})
				}
				if random.Intn(6) == 0 && len(batch) > 0 {
					f.send(batch...)
					batch = nil
				}
				if random.Intn(25) == 0 {
					if len(batch) > 0 {
						f.send(batch...)
						batch = nil
					}
					f.cut()
					var want []string
					for k, r := range rows {
						want = append(want, k+"|"+r[0]+"|"+r[1])
					}
					slices.Sort(want)
					f.expect(want)
					if random.Intn(5) == 0 {
						f.mode, f.keys = modes[random.Intn(len(modes))], limits[random.Intn(len(limits))]
						f.reopen()
						f.expect(want)
					}
				}
			}
			byKey, err := filepath.Glob(f.dir + "/warehouse/*/*/*/data/keys-*.parquet")
			if err != nil || (len(byKey) > 0) != slices.Contains(modes, "mor") {
				t.Errorf("%d files of keys in modes %q, %v", len(byKey), modes, err)
			}
			if n := f.b.counts.Missing.Load(); n > 0 {
				t.Fatalf("%d changes named rows that the lake did not hold", n)
			}
		})
	}
}
