package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

func count(t *testing.T, s InboxStore, r model.InboxRecord) int {
	t.Helper()
	n, err := s.CountRedelivery(bound(t), r)
	if err != nil {
		t.Fatalf("count a redelivery: %v", err)
	}
	return n
}

// testCountRedelivery: a count belongs to one consumer, key and round, and ends with the effect.
func testCountRedelivery(t *testing.T, s InboxStore) {
	r := record("\x00x")
	for want := 1; want <= 3; want++ {
		if got := count(t, s, r); got != want {
			t.Errorf("count %d, want %d", got, want)
		}
	}
	other := r
	other.Consumer = "mails"
	if got := count(t, s, other); got != 1 {
		t.Errorf("another consumer's count is %d, want 1", got)
	}
	r.Round = 1
	if first, second := count(t, s, r), count(t, s, r); first != 1 || second != 2 {
		t.Errorf("the next round counts %d, %d, want 1, 2", first, second)
	}
	if !recordNow(t, s, r) {
		t.Fatal("a count keeps the effect out")
	}
	if got := count(t, s, r); got != 0 {
		t.Errorf("the count of a message whose effect exists is %d, want 0", got)
	}
}

func testCountAtOnce(t *testing.T, s InboxStore) {
	const n = 8
	counts := make([]int, n)
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() {
			var err error
			if counts[i], err = s.CountRedelivery(t.Context(), record("x")); err != nil {
				t.Errorf("count a redelivery: %v", err)
			}
		})
	}
	wg.Wait()
	slices.Sort(counts)
	equal(t, "counts", counts, []int{1, 2, 3, 4, 5, 6, 7, 8})
}

func testPurgeInbox(t *testing.T, s InboxStore) {
	const n = 620
	tx := begin(t, s)
	for i := range n {
		if !recordIn(t, s, tx, record(fmt.Sprintf("old %d", i))) {
			t.Fatal("not first")
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	count(t, s, record("never done"))
	if n, err := s.PurgeInbox(bound(t), hour, 10_000); err != nil || n != 0 {
		t.Fatalf("purged %d young records, %v", n, err)
	}
	written := inboxNow(t, s)
	until(t, "all are older than a millisecond", func() bool { return inboxNow(t, s) > written+1 })
	if got, err := s.PurgeInbox(bound(t), time.Millisecond, 100); err != nil || got != 101 {
		t.Errorf("purged %d, %v, want at most 100 records and the count", got, err)
	}
	if got, err := s.PurgeInbox(bound(t), time.Millisecond, 10_000); err != nil || got != n-100 {
		t.Errorf("purged %d, %v, want the other %d records", got, err, n-100)
	}
	if recorded(t, s, record("old 0")) || recorded(t, s, record(fmt.Sprintf("old %d", n-1))) {
		t.Error("purged records are there")
	}
	if got := count(t, s, record("never done")); got != 1 {
		t.Errorf("a purged count goes on at %d", got)
	}
	for _, bad := range []struct {
		age   time.Duration
		limit int
	}{{0, 1}, {hour, 0}} {
		if _, err := s.PurgeInbox(bound(t), bad.age, bad.limit); err == nil {
			t.Errorf("age %v and limit %d are accepted", bad.age, bad.limit)
		}
	}
}

func inboxNow(t *testing.T, s InboxStore) int64 {
	t.Helper()
	ms, err := s.Now(bound(t))
	if err != nil {
		t.Fatalf("now: %v", err)
	}
	return ms
}

func testRecordRefusals(t *testing.T, s InboxStore) {
	tx := begin(t, s)
	for want, r := range map[string]model.InboxRecord{
		"0 bytes":   {Consumer: "payments"},
		"256 bytes": {Consumer: "payments", Key: make([]byte, 256)},
		"ASCII":     {Consumer: "pay ments", Key: []byte("x")},
		"1 to 64":   {Consumer: "", Key: []byte("x")},
		"repeats":   {Consumer: "payments", Formerly: []string{"payments"}, Key: []byte("x")},
		"at most 8": {Consumer: "payments", Formerly: strings.Split("a b c d e f g h i", " "), Key: []byte("x")},
	} {
		for act, err := range map[string]error{
			"record":   second(s.RecordTx(bound(t), tx, r, time.Minute)),
			"recorded": second(s.Recorded(bound(t), r)),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want it to say %q", act, err, want)
			}
		}
	}
	if _, err := s.RecordTx(bound(t), tx, record("x"), time.Millisecond); err == nil {
		t.Error("a wait of a millisecond is accepted")
	}
}

func second(_ bool, err error) error { return err }
