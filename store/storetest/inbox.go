package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Inbox is what a consumer's transactions call of a store.
type Inbox interface {
	RecordTx(ctx context.Context, x model.Execer, r model.InboxRecord, wait time.Duration) (first bool, err error)
	RecordedTx(ctx context.Context, x model.Transaction, r model.InboxRecord) (bool, error)
	Recorded(ctx context.Context, r model.InboxRecord) (bool, error)
	CountRedelivery(ctx context.Context, r model.InboxRecord) (count int, err error)
	PurgeInbox(ctx context.Context, olderThan time.Duration, limit int) (int, error)
	TxFault(err error) model.TxFault
	Now(context.Context) (int64, error)
}

// InboxStore is a store and a pool of the caller's on the same database.
type InboxStore struct {
	Inbox
	DB *sql.DB
}

// RunInbox runs the inbox's part of the suite. open returns an empty store of its own for
// each call and closes it when the test ends.
func RunInbox(t *testing.T, open func(t *testing.T) InboxStore) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, InboxStore){
		"RecordOnce": testRecordOnce, "KeysAreBytes": testRecordKeys, "RolledBackIsNone": testRecordRollback,
		"OneForEachConsumer": testRecordConsumers, "FormerNames": testRecordFormerly,
		"RivalsDecideForOne": testRecordRival, "TheWaitIsBounded": testRecordWait,
		"OneEffectAmongMany": testRecordMany, "RecordedTxNoticesALostTransaction": testRecordedTx,
		"CountRedelivery": testCountRedelivery, "CountRedeliveryAtOnce": testCountAtOnce,
		"Purge": testPurgeInbox, "RecordRefusals": testRecordRefusals,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func record(key string) model.InboxRecord {
	return model.InboxRecord{Consumer: "payments", Key: []byte(key), Mark: 7}
}

func begin(t *testing.T, s InboxStore) *sql.Tx {
	t.Helper()
	tx, err := s.DB.BeginTx(bound(t), nil)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // a second end is no matter
	return tx
}

// recordIn writes the record through tx.
func recordIn(t *testing.T, s InboxStore, tx *sql.Tx, r model.InboxRecord) bool {
	t.Helper()
	first, err := s.RecordTx(bound(t), tx, r, time.Minute)
	if err != nil {
		t.Fatalf("record %q: %v", r.Key, err)
	}
	return first
}

// recordNow writes the record in a transaction of its own, and rolls back what is no first.
func recordNow(t *testing.T, s InboxStore, r model.InboxRecord) bool {
	t.Helper()
	tx := begin(t, s)
	first := recordIn(t, s, tx, r)
	end := tx.Rollback
	if first {
		end = tx.Commit
	}
	if err := end(); err != nil {
		t.Fatalf("end the transaction of %q: %v", r.Key, err)
	}
	return first
}

func recorded(t *testing.T, s InboxStore, r model.InboxRecord) bool {
	t.Helper()
	done, err := s.Recorded(bound(t), r)
	if err != nil {
		t.Fatalf("recorded %q: %v", r.Key, err)
	}
	return done
}

func testRecordOnce(t *testing.T, s InboxStore) {
	r := record("018f0000-0000-7000-8000-000000000001")
	if recorded(t, s, r) {
		t.Error("recorded before it was")
	}
	if !recordNow(t, s, r) || recordNow(t, s, r) || recordNow(t, s, r) {
		t.Error("want the first alone to be first")
	}
	if !recorded(t, s, r) {
		t.Error("not recorded although it was")
	}
}

// testRecordKeys: keys are bytes, and no two are held for one.
func testRecordKeys(t *testing.T, s InboxStore) {
	long := make([]byte, model.MaxInboxKey)
	for i := range long {
		long[i] = byte(i)
	}
	keys := []string{
		"a", "A", "a ", " a", "\x00", "\x00\x00", "a\x00", "\xff", "\xc3\xa9", "e\xcc\x81", "'\\", "?", "$1",
		string(long), string(long[:254]),
	}
	for _, k := range keys {
		if !recordNow(t, s, record(k)) {
			t.Errorf("key %q is held for another", k)
		}
	}
	for _, k := range keys {
		if recordNow(t, s, record(k)) || !recorded(t, s, record(k)) {
			t.Errorf("key %q is not found again", k)
		}
	}
}

func testRecordRollback(t *testing.T, s InboxStore) {
	r := record("x")
	tx := begin(t, s)
	if !recordIn(t, s, tx, r) {
		t.Fatal("not first")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if recorded(t, s, r) || !recordNow(t, s, r) {
		t.Error("a record that was rolled back counts")
	}
}

func testRecordConsumers(t *testing.T, s InboxStore) {
	r, other := record("x"), record("x")
	other.Consumer = "mails"
	if !recordNow(t, s, r) || !recordNow(t, s, other) {
		t.Error("want a record for each consumer")
	}
}

// testRecordFormerly: whichever of two names wrote the record, the other finds it, as long as
// who has the new name says so.
func testRecordFormerly(t *testing.T, s InboxStore) {
	older := model.InboxRecord{Consumer: "billing", Key: []byte("before")}
	renamed := model.InboxRecord{Consumer: "payments", Formerly: []string{"bills", "billing"}, Key: []byte("before")}
	if !recordNow(t, s, older) || recordNow(t, s, renamed) || !recorded(t, s, renamed) {
		t.Error("what the former name did is done again")
	}
	older.Key, renamed.Key = []byte("after"), []byte("after")
	if !recordNow(t, s, renamed) || recordNow(t, s, renamed) || recordNow(t, s, older) {
		t.Error("what the new name did is done again, perhaps by a process with the former name")
	}
}

// testRecordRival: who comes second waits for the first to end, and does what that left.
func testRecordRival(t *testing.T, s InboxStore) {
	for _, c := range []struct {
		key  string
		end  func(*sql.Tx) error
		want bool
	}{{"committed", (*sql.Tx).Commit, false}, {"rolled back", (*sql.Tx).Rollback, true}} {
		holder := begin(t, s)
		if !recordIn(t, s, holder, record(c.key)) {
			t.Fatal("not first")
		}
		second := make(chan bool, 1)
		go func() { second <- tryRecord(t, s, record(c.key)) }()
		if err := c.end(holder); err != nil {
			t.Fatal(err)
		}
		if got := <-second; got != c.want {
			t.Errorf("%s: the second is first: %t, want %t", c.key, got, c.want)
		}
	}
}

// tryRecord is recordNow for a goroutine that may meet rivals, and tries again then.
func tryRecord(t *testing.T, s InboxStore, r model.InboxRecord) bool {
	for {
		first, err := recordOnce(t.Context(), s, r, nil)
		switch {
		case err == nil:
			return first
		case s.TxFault(err) != model.FaultRivals:
			t.Errorf("record %q: %v", r.Key, err)
			return false
		}
	}
}

// recordWithin is recordOnce without an effect and with a short wait.
func recordWithin(ctx context.Context, s InboxStore, r model.InboxRecord, wait time.Duration) (bool, error) {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // the wait's error says more
	return s.RecordTx(ctx, tx, r, wait)
}

// recordOnce writes the record and then the effect in one transaction.
func recordOnce(ctx context.Context, s InboxStore, r model.InboxRecord, effect func(*sql.Tx) error) (bool, error) {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // no matter after the commit
	first, err := s.RecordTx(ctx, tx, r, time.Minute)
	if err != nil || !first {
		return false, err
	}
	if effect != nil {
		if err := effect(tx); err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
}

func testRecordWait(t *testing.T, s InboxStore) {
	holder := begin(t, s)
	if !recordIn(t, s, holder, record("x")) {
		t.Fatal("not first")
	}
	// Well below what servers wait by themselves: 50 s on MariaDB, for ever on PostgreSQL.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := recordWithin(ctx, s, record("x"), time.Second)
	if err == nil || s.TxFault(err) != model.FaultRivals {
		t.Errorf("got %v (%v), want the wait to end as one for rivals", err, s.TxFault(err))
	}
}

// testRecordMany: of many who are at it at once each message gets one effect.
func testRecordMany(t *testing.T, s InboxStore) {
	if _, err := s.DB.ExecContext(t.Context(), "CREATE TABLE effects (message VARCHAR(36) NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.DB.ExecContext(context.Background(), "DROP TABLE effects") })
	const workers, messages = 6, 15
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range messages {
				effectOnce(t, s, fmt.Sprint("m", i))
			}
		})
	}
	wg.Wait()
	var rows, distinct int
	row := s.DB.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT message) FROM effects")
	if err := row.Scan(&rows, &distinct); err != nil || rows != messages || distinct != messages {
		t.Errorf("%d effects of %d messages (%v), want one for each of %d", rows, distinct, err, messages)
	}
}

func effectOnce(t *testing.T, s InboxStore, key string) {
	for {
		_, err := recordOnce(t.Context(), s, record(key), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO effects (message) VALUES ('"+key+"')")
			return err
		})
		if err == nil {
			return
		}
		if s.TxFault(err) != model.FaultRivals {
			t.Errorf("message %s: %v", key, err)
			return
		}
	}
}

// testRecordedTx: a transaction that was ended behind its handle's back has no record, not
// even when a rival has written one since.
func testRecordedTx(t *testing.T, s InboxStore) {
	r := record("x")
	tx := begin(t, s)
	if !recordIn(t, s, tx, r) {
		t.Fatal("not first")
	}
	if held, err := s.RecordedTx(bound(t), tx, r); err != nil || !held {
		t.Fatalf("held %t, %v, want it held", held, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	other := r
	other.Mark = 8
	tx = begin(t, s)
	if held, err := s.RecordedTx(bound(t), tx, other); err != nil || held && !refusesAfterErrors(t, s) {
		t.Errorf("held %t, %v: a rival's record is taken for the transaction's own", held, err)
	}
}

// refusesAfterErrors says whether a transaction refuses statements after an error, as
// PostgreSQL's do.
func refusesAfterErrors(t *testing.T, s InboxStore) bool {
	t.Helper()
	tx := begin(t, s)
	if _, err := tx.ExecContext(bound(t), "SELECT nonsense FROM nowhere"); err == nil {
		t.Fatal("a nonsensical statement is taken")
	}
	_, err := tx.ExecContext(bound(t), "SELECT 1")
	return err != nil
}
