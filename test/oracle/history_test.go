package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/streambed/streambed/formats"
	"github.com/streambed/streambed/formats/iceberg"
	"github.com/streambed/streambed/lsn"
	"github.com/streambed/streambed/stages"
	"github.com/streambed/streambed/stages/source"
	"github.com/streambed/streambed/test/postgres"
	"golang.org/x/sync/errgroup"
)

// history is one random life of a source and of the pipeline that follows it.
type history struct {
	t        *testing.T
	random   *rand.Rand
	server   *postgres.Server
	url      string
	settings settings
	process  *process
	model    *model
	lake     *lake
	watcher  *watcher
	conn     *pgx.Conn
	sessions []*session
	rests    []rest
	// same is, by table, the number of alterations after which lake and source were last found the same.
	same map[string]int
	told []string
	// mode is how the lake stores deletes, or "any"; lasting how long a phase of traffic lasts.
	mode     string
	lasting  time.Duration
	duckLake bool
}

// rest is what the lake was found to hold at a moment of rest.
type rest struct {
	checkpoint int64
	contents   map[string]*content
}

func (h *history) tell(format string, values ...any) {
	h.told = append(h.told, time.Now().Format("05.000 ")+fmt.Sprintf(format, values...))
}

// modeOfStart is the mode in which a pipeline is started.
func (h *history) modeOfStart() string {
	if h.duckLake {
		return duckLake
	}
	if h.mode == "any" {
		return []string{"dv", "mor", "cow"}[h.random.IntN(3)]
	}
	return h.mode
}

// randomSettings covers what must make no difference.
func (h *history) randomSettings() settings {
	random := h.random
	pick := func(values ...int64) int64 { return values[random.IntN(len(values))] }
	return settings{Mode: h.modeOfStart(), Memory: pick(64<<20, 64<<20, 256<<20), TargetFileSize: pick(64<<10, 4<<20, 128<<20),
		Flush:         stages.FlushOptions{Interval: time.Duration(50+random.IntN(950)) * time.Millisecond, Rows: pick(1, 20, 300, 10000), Bytes: pick(4<<10, 256<<10, 64<<20)},
		UploadWorkers: int(pick(1, 2, 4)), CopyWorkers: int(pick(1, 2, 4)), InFlight: int(pick(1, 2, 4))}
}

// serverGaveUp is the server's error when a slot was made while a transaction that changed its catalog was under way: its
// decoding then never gets past that place, whoever reads.
const serverGaveUp = "could not map filenode"

// run lives one history. An error is a difference, or a pipeline that does not do as it should.
func run(t *testing.T, server *postgres.Server, seed uint64, mode string, lasting time.Duration) {
	h := &history{t: t, mode: mode, lasting: lasting, duckLake: onDuckLake(mode, seed), random: rand.New(rand.NewPCG(seed, 0)), server: server, model: &model{}, same: map[string]int{}}
	if h.duckLake {
		skipWithoutDuckDB(t)
	}
	err := h.begin(seed)
	if err == nil {
		err = h.live()
	}
	h.end()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(h.settings.Folder, "log"))
		if strings.Contains(string(log), serverGaveUp) {
			t.Skipf("history %d: the server cannot decode its own log any more (%s); nothing can be told of the pipeline: %v", seed, serverGaveUp, err)
		}
		// Checkpoints are most of it, and tell the least.
		log = []byte(strings.Join(slices.DeleteFunc(strings.Split(string(log), "\n"), func(line string) bool { return strings.Contains(line, "\tcheckpoint\t") }), "\n"))
		t.Fatalf("history %d: %v\n\nrun it again with: go test ./test/oracle -run Histories -histories 1 -seed %d -mode %s -lasting %s\n\n%s\n\nthe end of the pipeline's log:\n%s",
			seed, err, seed, mode, lasting, strings.Join(h.told, "\n"), log[max(0, len(log)-12000):])
	}
	transfers, refused := 0, map[string]int{}
	for _, s := range h.sessions {
		transfers += s.committed
		for code, n := range s.refused {
			refused[code] += n
		}
	}
	t.Logf("history %d: %d transactions, %d views and %d of the past seen, %d events; refused: %v\n%s", seed, transfers, len(h.watcher.seen), h.watcher.past, len(h.told), refused, strings.Join(h.told, "\n"))
}

func (h *history) begin(seed uint64) error {
	ctx := h.t.Context()
	database := h.server.Database(h.t)
	h.url = database.URL()
	h.settings = h.randomSettings()
	h.settings.URL, h.settings.Slot, h.settings.Folder = h.url, "oracle_"+database.Name, h.t.TempDir()
	h.place(seed)
	var err error
	if h.conn, err = connect(ctx, h.url); err != nil {
		return err
	}
	if err := h.model.setUp(ctx, h.conn, h.random); err != nil {
		return err
	}
	if err := openJournal(ctx, h.conn); err != nil {
		return err
	}
	if h.lake, err = h.settings.openReader(ctx); err != nil {
		return err
	}
	h.watcher = &watcher{lake: h.lake, random: rand.New(rand.NewPCG(seed, 1)), seen: map[int64]*seen{}}
	for i := range 2 + h.random.IntN(3) {
		h.sessions = append(h.sessions, &session{number: i + 1, url: h.url, random: rand.New(rand.NewPCG(seed, uint64(i)+10)), model: h.model,
			schemas: i == 0, refused: map[string]int{}})
	}
	return h.beforeCommit(seed, database.Name)
}

// beforeCommit has the server send what it can of transactions before their commit, in half of the histories. It has a
// random source of its own, so that the rest of a history does not depend on it.
func (h *history) beforeCommit(seed uint64, database string) error {
	if rand.New(rand.NewPCG(seed, 2)).IntN(2) == 0 {
		return nil
	}
	h.tell("transactions of more than 64 kB come before their commit")
	for i, s := range h.sessions {
		s.ballast = rand.New(rand.NewPCG(seed, uint64(i)+100))
	}
	_, err := h.conn.Exec(h.t.Context(), fmt.Sprintf(`ALTER DATABASE %s SET logical_decoding_work_mem = '64kB';
CREATE SCHEMA ballast; CREATE TABLE ballast.filling (v text); ALTER TABLE ballast.filling ALTER v SET STORAGE EXTERNAL`, database))
	return err
}

// phases is the number of times that traffic comes to rest.
const phases = 3

func (h *history) live() error {
	for phase := range phases {
		early := h.process == nil && h.random.IntN(2) == 0 // tables are copied from under the traffic, or before it
		if !early {
			if err := h.start(); err != nil {
				return err
			}
		}
		h.tell("phase %d", phase)
		if err := h.phase(); err != nil {
			return fmt.Errorf("phase %d: %w", phase, err)
		}
		if err := h.start(); err != nil {
			return err
		}
		if err := h.settle(); err != nil {
			return fmt.Errorf("at rest after phase %d: %w", phase, err)
		}
		if phase < phases-1 && h.random.IntN(3) == 0 {
			if err := h.stop(); err != nil {
				return err
			}
		}
	}
	if h.duckLake {
		if err := h.maintainedByDuckDB(); err != nil {
			return err
		}
	}
	return h.judge()
}

// phase is a time of traffic, in which things happen to the pipeline and the source.
func (h *history) phase() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.t.Context()), h.lasting)
	defer cancel()
	watching, endWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer endWatching()
	group, sessions := errgroup.WithContext(ctx)
	for _, s := range h.sessions {
		group.Go(func() error {
			if s.conn == nil {
				if err := s.reconnect(sessions); err != nil {
					return err
				}
			}
			if err := s.work(sessions); err != nil {
				return fmt.Errorf("session %d: %w", s.number, err)
			}
			return nil
		})
	}
	watched := make(chan error, 1)
	go func() {
		err := h.watcher.watch(watching)
		if err != nil {
			cancel()
		}
		watched <- err
	}()
	err := h.happen(sessions)
	if err != nil {
		cancel()
	}
	err = errors.Join(err, group.Wait())
	endWatching()
	return errors.Join(err, <-watched)
}

// happen makes random things happen until ctx ends.
func (h *history) happen(ctx context.Context) error {
	for {
		wait := time.NewTimer(time.Duration(100+h.random.IntN(1500)) * time.Millisecond)
		var exited chan struct{}
		if h.process != nil {
			exited = h.process.exited
		}
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil
		case <-exited:
			wait.Stop()
			if err := h.died(); err != nil {
				return err
			}
			continue
		case <-wait.C:
		}
		if err := h.event(); err != nil {
			return err
		}
	}
}

// died is called when the process has ended by itself: as it was told to, or it is an error.
func (h *history) died() error {
	if h.settings.KillAt == "" {
		return fmt.Errorf("the pipeline ended by itself: %w", h.process.err)
	}
	h.tell("killed itself at %q", h.settings.KillAt)
	h.process = nil
	return h.start()
}

func (h *history) event() error {
	if h.process == nil {
		return h.start()
	}
	switch h.random.IntN(8) {
	case 0:
		if err := h.stop(); err != nil {
			return err
		}
		return h.start()
	case 1:
		return h.stop() // it stays away for a while
	case 2, 3:
		h.kill()
		return h.start()
	case 4:
		h.kill()
		h.tell("local state deleted")
		if err := os.RemoveAll(h.settings.state()); err != nil {
			return err
		}
		return h.start()
	case 5:
		h.tell("source restarts")
		return h.server.Restart(context.WithoutCancel(h.t.Context()))
	case 6:
		h.tell("source crashes")
		if err := h.server.Crash(); err != nil {
			return err
		}
		return h.server.Resume(context.WithoutCancel(h.t.Context()))
	}
	name := []string{"acct_a", "acct_b", "ledger", "bare", "k_int", "parts", "k_text"}[h.random.IntN(7)]
	h.tell("resync of %s", name)
	_, _ = h.process.ask(name)
	return nil
}

// start begins the pipeline's process where there is none.
func (h *history) start() (err error) {
	if h.process != nil {
		return nil
	}
	h.settings.KillAt, h.settings.KillAfter, h.settings.Mode = "", 0, h.modeOfStart()
	if h.random.IntN(4) == 0 {
		points := []string{iceberg.FilesPut, iceberg.MetadataPut, iceberg.SwapSent, iceberg.SwapDone}
		h.settings.KillAt, h.settings.KillAfter = points[h.random.IntN(len(points))], 1+h.random.Int64N(10)
	}
	h.tell("pipeline starts in mode %s %s", h.settings.Mode, h.settings.KillAt)
	h.process, err = startProcess(&h.settings)
	return err
}

func (h *history) stop() error {
	if h.process == nil {
		return nil
	}
	h.tell("pipeline stops")
	if err := h.warned(); err != nil {
		return err
	}
	err := h.process.stop()
	if err != nil && h.settings.KillAt == "" {
		return fmt.Errorf("the pipeline's stop: %w", err)
	}
	h.process = nil
	return nil
}

func (h *history) kill() {
	h.tell("pipeline is killed")
	h.process.kill()
	h.process = nil
}

// warned is an error when the pipeline has been told to change rows that it does not have.
func (h *history) warned() error {
	status, err := h.process.ask("")
	if err != nil {
		return nil // it has just ended, which others look at
	}
	for _, t := range status.Tables {
		for _, w := range t.Warnings {
			// A rewrite of a table without a key is told of by nothing but the catalog, which is looked at after a while.
			if strings.Contains(w, "did not hold") && h.model.altered(strings.TrimPrefix(t.Name, "public.")) == 0 {
				return fmt.Errorf("table %s: %s", t.Name, w)
			}
		}
	}
	return nil
}

// end leaves nothing running.
func (h *history) end() {
	if h.process != nil {
		h.process.kill()
	}
	for _, s := range h.sessions {
		s.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = h.server.Resume(ctx)
	if h.conn != nil {
		_ = h.conn.Close(ctx)
	}
	if conn, err := pgx.Connect(ctx, h.url); err == nil {
		_ = endAllPrepared(ctx, conn)
		_ = conn.Close(ctx)
	}
	if h.lake != nil {
		_ = h.lake.reader.Close()
	}
}

// endAllPrepared commits what sessions prepared and lost sight of.
func endAllPrepared(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, gid := range all {
		if _, e := conn.Exec(ctx, "COMMIT PREPARED '"+gid+"'"); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}

// position reads the source's end of log.
func (h *history) position(ctx context.Context) (lsn.LSN, error) {
	return source.InsertLSN(ctx, h.conn)
}

// judge compares what readers saw with the source's log, and what the lake now says of its past with what it said then.
func (h *history) judge() error {
	ctx := h.t.Context()
	j, err := readJournal(ctx, h.conn)
	if err != nil {
		return err
	}
	if err := h.watcher.judge(j); err != nil {
		return err
	}
	if h.duckLake {
		if err := h.stop(); err != nil {
			return err
		}
	}
	view, err := h.lake.reader.Current(ctx)
	if err != nil {
		return err
	}
	if h.duckLake {
		err = h.compareDuckLake(ctx, earlier)
	} else {
		err = h.compareReaders(ctx, view)
	}
	if err != nil {
		return err
	}
	for _, r := range h.rests {
		then, err := h.lake.reader.At(ctx, view, formats.Point{Checkpoint: r.checkpoint})
		if errors.Is(err, formats.ErrExpired) {
			continue
		}
		if err != nil {
			return err
		}
		for name, was := range r.contents {
			is, err := h.lake.content(ctx, then, name)
			if errors.Is(err, formats.ErrNoSuchTable) {
				continue // another incarnation has taken its place since
			}
			if err != nil {
				return err
			}
			if d := difference(was, is); d != "" {
				return fmt.Errorf("table %s as of checkpoint %d has changed since (first what it was): %s", name, r.checkpoint, d)
			}
		}
	}
	return h.stop()
}
