package keyindex

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sameMap fails unless m holds what want does, in the order of order.
func sameMap(t *testing.T, m *KeyMap, want map[string]uint64, order []string) {
	t.Helper()
	require.Equal(t, len(want), m.Len())
	i := 0
	for key, value := range m.All() {
		require.Equal(t, order[i], string(key))
		require.Equal(t, want[order[i]], *value)
		v, ok := m.Get(key)
		require.True(t, ok)
		require.Equal(t, *value, v)
		i++
	}
	require.Equal(t, len(order), i)
}

func TestKeyMapIsAMapThatKeepsTheOrder(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := NewKeyMap(int64(r.IntN(64 << 10)))
		want := map[string]uint64{}
		var order []string
		places := map[string]*uint64{}
		range_ := 1 << r.IntN(14)
		for range 20_000 {
			n := r.IntN(range_)
			// Keys of all lengths, the empty one and ones larger than a block of the arena included.
			key := fmt.Sprint(n)[:r.IntN(2)] + strings.Repeat(string(rune('a'+n%26)), n%40) + fmt.Sprint(n/3)
			switch r.IntN(40) {
			case 0:
				key = ""
			case 1:
				key = strings.Repeat(key, 1+r.IntN(50))
			}
			switch r.IntN(4) {
			case 0:
				v, ok := m.Get([]byte(key))
				w, known := want[key]
				require.Equal(t, known, ok)
				require.Equal(t, w, v)
			case 1:
				p, found := m.Slot([]byte(key))
				w, known := want[key]
				require.Equal(t, known, found)
				require.Equal(t, w, *p)
				*p += 3
				if !known {
					order = append(order, key)
				} else if places[key] != nil {
					require.Same(t, places[key], p, "a value moved")
				}
				places[key] = p
				want[key] = w + 3
			default:
				v := r.Uint64()
				if _, known := want[key]; !known {
					order = append(order, key)
				}
				m.Put([]byte(key), v)
				want[key] = v
			}
			if r.IntN(15_000) == 0 {
				sameMap(t, m, want, order)
				m.Reset()
				require.LessOrEqual(t, m.Bytes(), m.keep, "Reset kept more than its bound")
				want, order, places = map[string]uint64{}, nil, map[string]*uint64{}
				sameMap(t, m, want, order)
			}
		}
		sameMap(t, m, want, order)
	}
}

func TestKeyMapTakesAKeyLargerThanABlock(t *testing.T) {
	m := NewKeyMap(0)
	long := strings.Repeat("long", largestBlock)
	m.Put([]byte("short"), 1)
	m.Put([]byte(long), 2)
	m.Put([]byte("other"), 3)
	sameMap(t, m, map[string]uint64{"short": 1, long: 2, "other": 3}, []string{"short", long, "other"})
	m.Reset()
	require.Zero(t, m.Bytes())
}

func TestKeyMapCopiesKeys(t *testing.T) {
	m := NewKeyMap(0)
	key := []byte("key")
	m.Put(key, 1)
	key[0] = 'x'
	_, ok := m.Get(key)
	require.False(t, ok)
	v, ok := m.Get([]byte("key"))
	require.True(t, ok)
	require.EqualValues(t, 1, v)
}

// TestKeyMapIsCompact holds the memory per key to what its comment says.
func TestKeyMapIsCompact(t *testing.T) {
	const n = 300_000
	m := NewKeyMap(0)
	key := make([]byte, 12)
	for i := range uint64(n) {
		binary.BigEndian.PutUint64(key, i)
		m.Put(key, i)
	}
	require.Less(t, float64(m.Bytes())/n, 12.0+45)
}

func TestKeyMapReusesItsMemory(t *testing.T) {
	m := NewKeyMap(1 << 20)
	key := make([]byte, 8)
	fill := func() {
		for i := range uint64(3_000) {
			binary.BigEndian.PutUint64(key, i)
			m.Put(key, i)
		}
	}
	fill()
	require.Less(t, testing.AllocsPerRun(5, func() {
		m.Reset()
		fill()
	}), 20.0, "allocations for filling a map of 3000 keys again")
}

func BenchmarkKeyMap(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		keys := make([][]byte, n)
		for i := range keys {
			keys[i] = binary.BigEndian.AppendUint64([]byte{1}, rand.Uint64())
		}
		b.Run(fmt.Sprintf("put/%d", n), func(b *testing.B) {
			m := NewKeyMap(1 << 40)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%n == 0 {
					m.Reset()
				}
				m.Put(keys[i%n], uint64(i))
			}
		})
		b.Run(fmt.Sprintf("get/%d", n), func(b *testing.B) {
			m := NewKeyMap(0)
			for i, k := range keys {
				m.Put(k, uint64(i))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := m.Get(keys[i%n]); !ok {
					b.Fatal("a key is missing")
				}
			}
		})
		b.Run(fmt.Sprintf("go map put/%d", n), func(b *testing.B) {
			m := map[string]uint64{}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%n == 0 {
					clear(m)
				}
				m[string(keys[i%n])] = uint64(i)
			}
		})
	}
}
