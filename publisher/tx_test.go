package publisher_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/model"
)

func TestTxSendsNothingBeforeCommitted(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{answer: acked}
	p := open(t, s, snd, nil)
	defer closeNow(t, p)
	tx := p.Tx(nil)
	if err := tx.Publish(t.Context(), msg("a"), msg("b")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Publish(t.Context(), msg("c")); err != nil {
		t.Fatal(err)
	}
	if snd.count() != 0 || len(s.rows) != 3 {
		t.Fatalf("%d sends and %d rows before the commit, want 0 and 3", snd.count(), len(s.rows))
	}
	rs, err := tx.Committed(t.Context())
	if err != nil || len(rs) != 3 {
		t.Fatalf("got %d receipts, %v", len(rs), err)
	}
	for _, r := range rs {
		if o := outcome(t, r); o.Kind != model.Acked {
			t.Errorf("outcome %v, want acked", o)
		}
	}
	if rs, err := tx.Committed(t.Context()); rs != nil || err != nil || snd.count() != 3 {
		t.Errorf("a second Committed: %v, %v, %d sends; want nothing and 3", rs, err, snd.count())
	}
}

func TestTxErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := newMemStore()
	p := open(t, s, &fakeSender{answer: acked}, nil)
	defer closeNow(t, p)
	tx := p.Tx(nil)
	if err := tx.Publish(t.Context(), msg("a"), model.Message{Exchange: "a\r"}); !errors.Is(err, model.ErrInvalid) {
		t.Errorf("bad message: %v, want ErrInvalid", err)
	}
	s.err = errDown
	err := tx.Publish(t.Context(), msg("a"))
	if !errors.Is(err, model.ErrTxMustRollBack) || !errors.Is(err, errDown) {
		t.Errorf("driver error: %v, want ErrTxMustRollBack around it", err)
	}
	s.err = nil
	if rs, err := tx.Committed(t.Context()); len(rs) != 0 || err != nil {
		t.Errorf("nothing was published, got %v, %v", rs, err)
	}
}

// C38: a commit that returned nil is no proof.
func TestC38_CommittedSendsOnlyWhatExists(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{answer: acked}
	p := open(t, s, snd, nil)
	defer closeNow(t, p)
	a, b := msg("a"), msg("b")
	a.ID, b.ID = model.NewID(), model.NewID()
	tx := p.Tx(nil)
	if err := tx.Publish(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	s.lost[a.ID] = true
	rs, err := tx.Committed(t.Context())
	if err != nil || len(rs) != 1 || rs[0].ID() != b.ID || snd.count() != 1 {
		t.Errorf("got %d receipts, %v, %d sends; want b alone", len(rs), err, snd.count())
	}

	tx = p.Tx(nil)
	c := msg("c")
	c.ID = model.NewID()
	if err := tx.Publish(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.lost[c.ID] = true
	if _, err := tx.Committed(t.Context()); !errors.Is(err, model.ErrRowsMissing) || snd.count() != 1 {
		t.Errorf("got %v, %d sends; want ErrRowsMissing and no further send", err, snd.count())
	}
}

// C38: a transaction open for longer than the grace is sent once: by us with a renewed
// lease, or by the compensator that has claimed it.
func TestC38_LongTransactionRenewsItsLease(t *testing.T) {
	t.Parallel()
	for _, claimed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, snd := newMemStore(), &fakeSender{answer: acked}
			p := open(t, s, snd, nil)
			m := msg("a")
			m.ID = model.NewID()
			tx := p.Tx(nil)
			if err := tx.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			time.Sleep(40 * time.Second) // fake time of the bubble
			if claimed {
				row := s.rows[m.ID]
				row.Version = 1
				s.rows[m.ID] = row
			}
			rs, err := tx.Committed(t.Context())
			if err != nil || len(rs) != 1 {
				t.Fatalf("got %v, %v", rs, err)
			}
			want := model.Acked
			if claimed {
				want = model.Deferred
			}
			if o := outcome(t, rs[0]); o.Kind != want || (s.renewed == 1) == claimed || (snd.count() == 1) == claimed {
				t.Errorf("claimed %v: %v, %d renewed, %d sends", claimed, o, s.renewed, snd.count())
			}
			closeNow(t, p)
		})
	}
}

// With the gate closed after the commit the row is made due instead of waiting for its
// lease to end.
func TestTxHandsBackWhatItCannotSend(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{full: true}
	p := open(t, s, snd, nil)
	tx := p.Tx(nil)
	if err := tx.Publish(t.Context(), msg("a")); err != nil {
		t.Fatal(err)
	}
	rs, err := tx.Committed(t.Context())
	if err != nil || outcome(t, rs[0]).Kind != model.Deferred {
		t.Fatalf("got %v", err)
	}
	closeNow(t, p)
	row, delay, ok := s.row(rs[0].ID())
	if !ok || delay != 0 || row.Version != 1 || row.Failures != 0 {
		t.Errorf("row %+v due after %v; want handed back, due now, nothing counted", row, delay)
	}
}

// C38: rows of a long transaction get a new lease before its commit, so that their absence
// after it means what it says; without that nobody can know.
func TestC38_LongTransactionIsReadBackUnderALease(t *testing.T) {
	t.Parallel()
	for _, extend := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, snd := newMemStore(), &fakeSender{answer: acked}
			p := open(t, s, snd, nil)
			m := msg("a")
			m.ID = model.NewID()
			tx := p.Tx(nil)
			if err := tx.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if err := tx.BeforeCommit(t.Context()); err != nil || s.extended != 0 {
				t.Fatalf("a short transaction: %v, %d rows extended", err, s.extended)
			}
			time.Sleep(40 * time.Second) // fake time of the bubble
			want := model.ErrStoreUnknown
			if extend {
				want = model.ErrRowsMissing
				if err := tx.BeforeCommit(t.Context()); err != nil || s.extended != 1 {
					t.Fatalf("%v, %d rows extended, want 1", err, s.extended)
				}
			}
			s.lost[m.ID] = true
			if _, err := tx.Committed(t.Context()); !errors.Is(err, want) {
				t.Errorf("extended %v: got %v, want %v", extend, err, want)
			}
			closeNow(t, p)
		})
	}
}

func TestBeforeCommitErrorsMustRollBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		p := open(t, s, &fakeSender{answer: acked}, nil)
		tx := p.Tx(nil)
		if err := tx.Publish(t.Context(), msg("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second) // fake time of the bubble
		s.err = errDown
		if err := tx.BeforeCommit(t.Context()); !errors.Is(err, model.ErrTxMustRollBack) || !errors.Is(err, errDown) {
			t.Errorf("got %v, want ErrTxMustRollBack around the cause", err)
		}
		closeNow(t, p)
	})
}
