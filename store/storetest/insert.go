package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

func testInsertFields(t *testing.T, s Store) {
	d := draft("body", func(m *model.Message) {
		m.Key, m.Exchange, m.RoutingKey = "order-7 ü 🚚 ", "äx ", "a.b'\"\\c "
		m.Headers = map[string]any{"n": int64(3), "raw": []byte{0, 1, 0xff}}
	})
	d.Delay, d.ClaimedBy = 90*time.Second, instance
	before := now(t, s)
	insert(t, s, d)
	after := now(t, s)
	got, events := show(t, s, d.ID)
	if got.CreatedAt < before || got.CreatedAt > after || got.UpdatedAt != got.CreatedAt {
		t.Errorf("created %d, updated %d, want both one time in %d..%d", got.CreatedAt, got.UpdatedAt, before, after)
	}
	want := d.TransMessage
	want.CreatedAt, want.UpdatedAt = got.CreatedAt, got.UpdatedAt
	want.NextAttemptAt = got.CreatedAt + 90_000
	equal(t, "row", got, want)
	if len(events) != 0 {
		t.Errorf("a new row has %d events, want none", len(events))
	}
}

func testBytesAreExact(t *testing.T, s Store) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	random := make([]byte, 1<<20)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"nil": nil, "empty": {}, "one NUL": {0}, "all values": all, "not UTF-8": {0xff, 0xfe, 0x80},
		"quotes": []byte(`'"\'; -- ? $1 %s`), "1 MiB random": random,
	} {
		d := draft("", func(m *model.Message) { m.Body = body })
		insert(t, s, d)
		got, _ := show(t, s, d.ID)
		if string(got.Payload) != string(body) {
			t.Errorf("%s: shown body differs", name)
		}
	}
	for _, row := range claim(t, s, func(c *model.Claim) { c.MaxBytes = 1 << 30 }).Rows {
		shown, _ := show(t, s, row.ID)
		if string(row.Payload) != string(shown.Payload) || string(row.Properties) != string(shown.Properties) {
			t.Errorf("claimed row %s differs from the stored one", row.ID)
		}
	}
}

func testLargeBodies(t *testing.T, s Store) {
	sizes := []int{65535, 65536, 70000, min(s.MaxBody(), model.DefaultMaxBody)}
	var rows []model.Draft
	for _, n := range sizes {
		// The worst case of escaping: every byte is doubled.
		rows = append(rows, draft(strings.Repeat("'", n)), draft("neighbour"))
	}
	insert(t, s, rows...)
	for i, n := range sizes {
		got, _ := show(t, s, rows[2*i].ID)
		if len(got.Payload) != n {
			t.Errorf("body of %d bytes came back with %d", n, len(got.Payload))
		}
	}
}

// existing stores a READY row and a DEAD one.
func existing(t *testing.T, s Store) (ready, dead model.Draft) {
	t.Helper()
	dead = draft("dead")
	insert(t, s, dead)
	m := returned(dead.TransMessage)
	m.Status = model.Dead
	settle(t, s, m)
	ready = draft("ready")
	insert(t, s, ready)
	return ready, dead
}

func testInsertExisting(t *testing.T, s Store) {
	ready, dead := existing(t, s)
	other := draft("other body", func(m *model.Message) { m.ID = ready.ID })
	otherDead := draft("other body", func(m *model.Message) { m.ID = dead.ID })
	for _, c := range []struct {
		name string
		row  model.Draft
		want model.Stored
	}{
		{"equal", ready, model.StoredBefore},
		{"other", other, model.StoredOther},
		{"equal and dead", dead, model.StoredDead},
		{"other than a dead one", otherDead, model.StoredOther},
	} {
		before, _ := show(t, s, c.row.ID)
		got, err := s.Insert(bound(t), []model.Draft{c.row})
		if err != nil || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.want)
		}
		after, _ := show(t, s, c.row.ID)
		equal(t, c.name+": the existing row", after, before)
	}
}

func testInsertAllOrNone(t *testing.T, s Store) {
	ready, dead := existing(t, s)
	other := draft("other body", func(m *model.Message) { m.ID = ready.ID })
	for _, c := range []struct {
		name   string
		row    model.Draft
		want   model.Stored
		stored bool
	}{
		{"equal row in it", ready, model.StoredBefore, true},
		{"other row in it", other, model.StoredOther, false},
		{"dead row in it", dead, model.StoredDead, false},
	} {
		a, b := draft("a"), draft("b")
		got, err := s.Insert(bound(t), []model.Draft{a, c.row, b})
		if err != nil || len(got) != 3 || got[1] != c.want {
			t.Fatalf("%s: got %v, %v, want %v in the middle", c.name, got, err, c.want)
		}
		for i, d := range []model.Draft{a, b} {
			if exists(t, s, d.ID) != c.stored || (got[2*i] == model.StoredNew) != c.stored {
				t.Errorf("%s: a new row's result is %v, stored must be %t", c.name, got[2*i], c.stored)
			}
		}
	}
}

func testInsertRepeats(t *testing.T, s Store) {
	a := draft("a")
	got, err := s.Insert(bound(t), []model.Draft{a, a})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the same message twice", got, []model.Stored{model.StoredNew, model.StoredBefore})
	b := draft("b")
	other := draft("not b", func(m *model.Message) { m.ID = b.ID })
	got, err = s.Insert(bound(t), []model.Draft{b, other})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "two messages with one id", got, []model.Stored{0, model.StoredOther})
	if exists(t, s, b.ID) {
		t.Error("the first of two messages with one id was stored")
	}
}

func testInsertMany(t *testing.T, s Store) {
	rows := drafts(700)
	insert(t, s, rows...)
	got, err := s.ReadBack(bound(t), ids(rows))
	if err != nil || len(got) != len(rows) {
		t.Fatalf("read back: %d rows, %v, want %d", len(got), err, len(rows))
	}
	more := drafts(700)
	more = append(more, draft("other body", func(m *model.Message) { m.ID = rows[0].ID }))
	if _, err := s.Insert(bound(t), more); err != nil {
		t.Fatal(err)
	}
	got, err = s.ReadBack(bound(t), ids(more[:700]))
	if err != nil || len(got) != 0 {
		t.Errorf("%d rows of a call with a conflict were stored (%v)", len(got), err)
	}
}

// testInsertOneID lets callers race with the same id: with equal content one stores it
// and the others find it; a different content never wins beside it.
func testInsertOneID(t *testing.T, s Store) {
	const callers = 24
	for round := range 5 {
		a := draft("a")
		b := draft("b", func(m *model.Message) { m.ID = a.ID })
		found := make([]model.Stored, callers)
		var wg sync.WaitGroup
		for i := range callers {
			d := a
			if i%2 == 1 {
				d = b
			}
			neighbour := draft("neighbour")
			wg.Go(func() {
				got, err := s.Insert(bound(t), []model.Draft{d})
				if err != nil {
					t.Errorf("insert: %v", err)
					return
				}
				found[i] = got[0]
			})
			wg.Go(func() { insertIn(t, s, neighbour) })
		}
		wg.Wait()
		row, _ := show(t, s, a.ID)
		count := map[model.Stored]int{}
		for i, f := range found {
			count[f]++
			same := string(row.Payload) == []string{"a", "b"}[i%2]
			if (f == model.StoredOther) == same {
				t.Errorf("round %d: caller %d got %v while the stored row is %q", round, i, f, row.Payload)
			}
		}
		if count[model.StoredNew] != 1 || count[model.StoredBefore] != callers/2-1 {
			t.Errorf("round %d: got %v, want 1 new and %d before", round, count, callers/2-1)
		}
	}
}

// insertIn is insert for goroutines: it never ends the test.
func insertIn(t *testing.T, s Store, d model.Draft) {
	t.Helper()
	if got, err := s.Insert(bound(t), []model.Draft{d}); err != nil || got[0] != model.StoredNew {
		t.Errorf("insert: got %v, %v, want new", got, err)
	}
}

func testInsertCallers(t *testing.T, s Store) {
	const callers, each = 64, 4
	rows := drafts(callers * each)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for _, d := range rows[i*each : (i+1)*each] {
				insertIn(t, s, d)
			}
		})
	}
	wg.Wait()
	got, err := s.ReadBack(bound(t), ids(rows))
	if err != nil || len(got) != len(rows) {
		t.Errorf("read back: %d rows, %v, want %d", len(got), err, len(rows))
	}
}

func testInsertContext(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := draft("late")
	_, err := s.Insert(ctx, []model.Draft{d})
	var se *model.StoreError
	if !errors.Is(err, model.ErrNotStored) || !errors.Is(err, context.Canceled) || !errors.As(err, &se) {
		t.Fatalf("got %v, want a StoreError that is ErrNotStored and Canceled", err)
	}
	equal(t, "ids of the error", se.IDs, []string{d.ID})
	if exists(t, s, d.ID) {
		t.Error("the row was stored although the error says it was not")
	}
}

// testInsertLeft cancels callers at random moments: what they are told holds, and a
// repeat with the same ids always makes one row.
func testInsertLeft(t *testing.T, s Store) {
	for i := range 50 {
		d := draft("left")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.Insert(ctx, []model.Draft{d})
			done <- err
		}()
		for range i * 200 {
			_ = ctx.Err() // a little later each time
		}
		cancel()
		err := <-done
		stored := exists(t, s, d.ID)
		switch {
		case err == nil && !stored:
			t.Error("no error and no row")
		case errors.Is(err, model.ErrNotStored) && stored:
			t.Error("ErrNotStored, but the row exists")
		case err != nil && !errors.Is(err, model.ErrNotStored) && !errors.Is(err, model.ErrStoreUnknown):
			t.Errorf("got %v, want ErrNotStored or ErrStoreUnknown", err)
		}
		if got, err := s.Insert(bound(t), []model.Draft{d}); err != nil ||
			(got[0] != model.StoredNew && got[0] != model.StoredBefore) {
			t.Errorf("repeat: got %v, %v, want new or before", got, err)
		}
	}
}

func testBinary(t *testing.T, s Store) {
	lower := draft("lower", func(m *model.Message) { m.ID = "0192f3c4-aaaa-7bbb-8ccc-ddddeeeeffff" })
	upper := draft("upper", func(m *model.Message) { m.ID = strings.ToUpper(lower.ID) })
	insert(t, s, lower)
	insert(t, s, upper)
	if got, _ := show(t, s, upper.ID); string(got.Payload) != "upper" {
		t.Errorf("ids that differ in case are one row: %q", got.Payload)
	}
	keys := []string{"abc", "ABC", "abc ", "àbc"}
	for _, k := range keys {
		insert(t, s, draft(k, func(m *model.Message) { m.Key = k }))
	}
	for _, k := range keys {
		got, err := s.List(bound(t), model.Filter{Key: k})
		if err != nil || len(got) != 1 || got[0].MessageKey != k {
			t.Errorf("key %q: got %d rows, %v, want its own", k, len(got), err)
		}
	}
}

func testClose(t *testing.T, s Store) {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Insert(bound(t), drafts(1))
	if !errors.Is(err, model.ErrClosed) || !errors.Is(err, model.ErrNotStored) {
		t.Errorf("insert after close: got %v, want ErrClosed and ErrNotStored", err)
	}
	if _, err := s.ReadBack(bound(t), []string{model.NewID()}); !errors.Is(err, model.ErrClosed) {
		t.Errorf("read back after close: got %v, want ErrClosed", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
