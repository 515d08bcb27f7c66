package gormstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// private is a MariaDB of the test's own, and a store on it.
type private struct {
	*dbtest.MariaDBServer
	schema string
	store  *gormstore.Store
}

// TestFaults shares one private server, so its tests run one after the other.
func TestFaults(t *testing.T) {
	server := dbtest.StartMariaDB(t, dbtest.MariaDBOptions{})
	for _, c := range []struct {
		name string
		o    gormstore.Options
		test func(*testing.T, *private)
	}{
		{"C35_LockedTable", gormstore.Options{}, testLockedTable},
		{"C35_DeadlineInMidStatement", gormstore.Options{InsertTimeout: 300 * time.Millisecond}, testDeadline},
		{"C35_KilledInMidInsert", gormstore.Options{}, testKilledInMidInsert},
		{"KilledIdleConnectionsCostNothing", gormstore.Options{}, testKilledIdle},
		{"ReadOnlyServer", gormstore.Options{MaxOpenConns: 1}, testReadOnly},
		{"C34_LockWaitTimeoutIsRetriedWhole", gormstore.Options{}, testLockWait},
		{"NothingPrepared", gormstore.Options{}, testNothingPrepared},
		{"PreparedReadOnly", gormstore.Options{}, testPreparedReadOnly},
		{"ServerDownAndUp", gormstore.Options{}, testServerDown},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, onPrivate(t, server, c.o)) })
	}
}

func onPrivate(t *testing.T, server *dbtest.MariaDBServer, o gormstore.Options) *private {
	t.Helper()
	schema, err := server.NewSchema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &private{server, schema, migrated(t, server.DSN(schema), o)}
}

// lock holds the table so that statements wait, and returns what frees it.
func (p *private) lock(t *testing.T) (unlock func()) {
	t.Helper()
	free, err := p.LockTable(t.Context(), p.schema, "trans_message")
	if err != nil {
		t.Fatal(err)
	}
	done := false
	unlock = func() {
		if !done {
			done = true
			if err := free(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unlock)
	return unlock
}

// waits blocks until n statements wait for the lock: the fault has bitten.
func (p *private) waits(t *testing.T, n int) {
	t.Helper()
	eventually(t, "statements wait for the table", func() bool {
		got, err := p.LockWaits(t.Context())
		return err == nil && got >= n
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("gave up waiting until %s", what)
		}
	}
}

// insertAsync inserts one row and returns where its error will be.
func insertAsync(ctx context.Context, s *gormstore.Store, d model.Draft) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Insert(ctx, []model.Draft{d})
		done <- err
	}()
	return done
}

// repeat stores the row again with the same id, which always ends in one row.
func repeat(t *testing.T, s *gormstore.Store, d model.Draft, want ...model.Stored) {
	t.Helper()
	got, err := s.Insert(t.Context(), []model.Draft{d})
	if err != nil || !slices.Contains(want, got[0]) {
		t.Errorf("insert: got %v, %v, want one of %v", got, err, want)
	}
	if n := present(t, s, d); n != 1 {
		t.Errorf("%d rows after the insert, want 1", n)
	}
}

func unknownIDs(t *testing.T, err error, want string) {
	t.Helper()
	var se *model.StoreError
	if !errors.Is(err, model.ErrStoreUnknown) || !errors.As(err, &se) || !slices.Equal(se.IDs, []string{want}) {
		t.Errorf("got %v, want ErrStoreUnknown with the id %s", err, want)
	}
}

// testLockedTable: callers whose context ends while their statement runs get
// unknown, those that still wait for their turn are certain, and both hold.
func testLockedTable(t *testing.T, p *private) {
	t.Helper()
	unlock := p.lock(t)
	running, queued, patient := benchDraft(nil), benchDraft(nil), benchDraft(nil)
	ctx, cancel := context.WithCancel(t.Context())
	first := insertAsync(ctx, p.store, running)
	p.waits(t, 1)
	queuedCtx, cancelQueued := context.WithCancel(t.Context())
	second, third := insertAsync(queuedCtx, p.store, queued), insertAsync(t.Context(), p.store, patient)
	cancelQueued()
	if err := <-second; !errors.Is(err, model.ErrNotStored) || !errors.Is(err, context.Canceled) {
		t.Errorf("queued caller: got %v, want ErrNotStored by Canceled", err)
	}
	cancel()
	unknownIDs(t, <-first, running.ID)
	unlock()
	if err := <-third; err != nil {
		t.Errorf("patient caller: %v", err)
	}
	// The statement belonged to nobody's context: it ran to its end.
	repeat(t, p.store, running, model.StoredBefore)
	if present(t, p.store, queued) != 0 {
		t.Error("the queued caller's row was stored although its error is ErrNotStored")
	}
}

// testDeadline: the shared statement's own deadline passes.
func testDeadline(t *testing.T, p *private) {
	t.Helper()
	unlock := p.lock(t)
	d := benchDraft(nil)
	err := <-insertAsync(t.Context(), p.store, d)
	unknownIDs(t, err, d.ID)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline as its cause", err)
	}
	unlock()
	repeat(t, p.store, d, model.StoredNew, model.StoredBefore)
}

// testKilledInMidInsert: the connection is killed while the statement waits.
func testKilledInMidInsert(t *testing.T, p *private) {
	t.Helper()
	unlock := p.lock(t)
	a, b := benchDraft(nil), benchDraft(nil)
	first := insertAsync(t.Context(), p.store, a)
	p.waits(t, 1)
	second := insertAsync(t.Context(), p.store, b)
	if n, err := p.KillConnections(t.Context()); err != nil || n == 0 {
		t.Fatalf("killed %d connections, %v", n, err)
	}
	unlock()
	if err := <-first; err != nil {
		t.Errorf("the statement that was killed, with time left: %v, want it made again", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the next statement, on a new connection: %v", err)
	}
	repeat(t, p.store, a, model.StoredBefore)
}

// testKilledIdle: nothing was sent on them, so trying again is
// safe and no caller notices.
func testKilledIdle(t *testing.T, p *private) {
	t.Helper()
	for range 5 {
		if _, err := p.store.Insert(t.Context(), batch(1)); err != nil {
			t.Fatal(err)
		}
		if n, err := p.KillConnections(t.Context()); err != nil || n == 0 {
			t.Fatalf("killed %d connections, %v", n, err)
		}
	}
	if _, err := p.store.Insert(t.Context(), batch(1)); err != nil {
		t.Error(err)
	}
}

// testReadOnly: certain, named, and over as soon as the server is a primary
// again, on new connections.
func testReadOnly(t *testing.T, p *private) {
	t.Helper()
	connection := func() (id int) {
		if err := p.store.Pool().QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	before := connection()
	if err := p.ReadOnly(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	d := benchDraft(nil)
	_, err := p.store.Insert(t.Context(), []model.Draft{d})
	if !errors.Is(err, model.ErrNotStored) || !strings.Contains(err.Error(), "read-only") ||
		!strings.Contains(err.Error(), p.Addr()) {
		t.Errorf("got %v, want ErrNotStored that names %s and read-only", err, p.Addr())
	}
	if connection() == before {
		t.Error("the connection that answered read only is still in the pool")
	}
	if err := p.ReadOnly(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	repeat(t, p.store, d, model.StoredNew)
}

// testServerDown: a refused connection is certain; the pool recovers by itself.
func testServerDown(t *testing.T, p *private) {
	t.Helper()
	kept := batch(3)
	if _, err := p.store.Insert(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	d := benchDraft(nil)
	_, err := p.store.Insert(t.Context(), []model.Draft{d})
	if !errors.Is(err, model.ErrNotStored) || !strings.Contains(err.Error(), p.Addr()) {
		t.Errorf("got %v, want ErrNotStored that names %s", err, p.Addr())
	}
	if _, err := p.store.Delete(t.Context(), []model.RowKey{{ID: d.ID}}); err == nil {
		t.Error("delete on a dead server: no error")
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	repeat(t, p.store, d, model.StoredNew)
	if n := present(t, p.store, kept...); n != 3 {
		t.Errorf("%d of 3 rows survived a kill -9 of the server", n)
	}
}

// testLockWait: 1205 undoes only a statement; the store undoes the
// rest and runs the transaction again.
func testLockWait(t *testing.T, p *private) {
	t.Helper()
	rows := batch(1)
	if _, err := p.store.Insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, p.store)
	lockRow(t, tx, rows[0].ID)
	key := "corrected"
	done := make(chan error, 1)
	go func() { done <- p.store.Edit(t.Context(), rows[0].ID, model.Edit{RoutingKey: &key, Actor: "tester"}) }()
	eventually(t, "a lock wait has timed out", func() bool {
		var n int
		err := p.store.Pool().QueryRowContext(t.Context(), "SELECT COALESCE(SUM(count), 0) FROM "+
			"information_schema.innodb_metrics WHERE name = 'lock_timeouts'").Scan(&n)
		return err == nil && n > 0
	})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("edit: %v, want it made after the retry", err)
	}
	got, events, err := p.store.Show(t.Context(), rows[0].ID)
	if err != nil || got.RoutingKey != key || len(events) != 1 {
		t.Errorf("got key %q, %d events, %v, want it edited once", got.RoutingKey, len(events), err)
	}
}
