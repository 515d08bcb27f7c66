package publisher_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

func TestTxSendsNothingBeforeCommit(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{answer: acked}
	p := open(t, s, snd, nil)
	defer closeNow(t, p)
	tx := p.Tx(&fakeTx{})
	if err := tx.Publish(t.Context(), msg("a"), msg("b")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Publish(t.Context(), msg("c")); err != nil {
		t.Fatal(err)
	}
	if snd.count() != 0 || len(s.rows) != 3 {
		t.Fatalf("%d sends and %d rows before the commit, want 0 and 3", snd.count(), len(s.rows))
	}
	rs, err := tx.Commit(t.Context(), done)
	if err != nil || len(rs) != 3 {
		t.Fatalf("got %d receipts, %v", len(rs), err)
	}
	for _, r := range rs {
		if o := outcome(t, r); o.Kind != model.Acked {
			t.Errorf("outcome %v, want acked", o)
		}
	}
	if rs, err := tx.Commit(t.Context(), done); rs != nil || err == nil || snd.count() != 3 {
		t.Errorf("a second Commit: %v, %v, %d sends; want an error and 3", rs, err, snd.count())
	}
}

func TestTxErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := newMemStore()
	p := open(t, s, &fakeSender{answer: acked}, nil)
	defer closeNow(t, p)
	tx := p.Tx(&fakeTx{})
	if err := tx.Publish(t.Context(), msg("a"), model.Message{Exchange: "a\r"}); !errors.Is(err, model.ErrInvalid) {
		t.Errorf("bad message: %v, want ErrInvalid", err)
	}
	s.err = errDown
	err := tx.Publish(t.Context(), msg("a"))
	if !errors.Is(err, model.ErrTxMustRollBack) || !errors.Is(err, errDown) {
		t.Errorf("driver error: %v, want ErrTxMustRollBack around it", err)
	}
	s.err = nil
	handle := &fakeTx{}
	tx = p.Tx(handle)
	if rs, err := tx.Commit(t.Context(), handle.Commit); len(rs) != 0 || err != nil || handle.commits != 1 {
		t.Errorf("nothing was published, got %v, %v, %d commits", rs, err, handle.commits)
	}
}

// C38: a commit that returned nil is no proof. What is not there is an error, also when
// other rows are.
func TestC38_CommitSendsOnlyWhatExists(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{answer: acked}
	p := open(t, s, snd, nil)
	defer closeNow(t, p)
	a, b := msg("a"), msg("b")
	a.ID, b.ID = model.NewID(), model.NewID()
	tx := p.Tx(&fakeTx{})
	if err := tx.Publish(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	s.lost[a.ID] = true
	rs, err := tx.Commit(t.Context(), done)
	if len(rs) != 1 || rs[0].ID() != b.ID || snd.count() != 1 {
		t.Errorf("got %d receipts, %d sends; want b alone", len(rs), snd.count())
	}
	var lost *model.StoreError
	if !errors.Is(err, model.ErrRowsMissing) || !errors.As(err, &lost) || !slices.Equal(lost.IDs, []string{a.ID}) {
		t.Errorf("got %v, want ErrRowsMissing with the id of a", err)
	}

	tx = p.Tx(&fakeTx{})
	c := msg("c")
	c.ID = model.NewID()
	if err := tx.Publish(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.lost[c.ID] = true
	if _, err := tx.Commit(t.Context(), done); !errors.Is(err, model.ErrRowsMissing) || snd.count() != 1 {
		t.Errorf("got %v, %d sends; want ErrRowsMissing and no further send", err, snd.count())
	}
}

// C38: a transaction whose commit took longer than the lease is sent once: by us with a
// renewed lease, or by the compensator that has claimed it.
func TestC38_LongCommitRenewsItsLease(t *testing.T) {
	t.Parallel()
	for _, claimed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, snd := newMemStore(), &fakeSender{answer: acked}
			p := open(t, s, snd, nil)
			m := msg("a")
			m.ID = model.NewID()
			tx := p.Tx(&fakeTx{})
			if err := tx.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			rs, err := tx.Commit(t.Context(), func() error {
				time.Sleep(40 * time.Second) // fake time of the bubble
				if claimed {
					row := s.rows[m.ID]
					row.Version = 1
					s.rows[m.ID] = row
				}
				return nil
			})
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
	tx := p.Tx(&fakeTx{})
	if err := tx.Publish(t.Context(), msg("a")); err != nil {
		t.Fatal(err)
	}
	rs, err := tx.Commit(t.Context(), done)
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
// after it means what it says. Where the commit itself takes longer than the lease, nobody
// can know.
func TestC38_LongTransactionIsReadBackUnderALease(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, snd := newMemStore(), &fakeSender{answer: acked}
			p := open(t, s, snd, nil)
			m := msg("a")
			m.ID = model.NewID()
			tx := p.Tx(&fakeTx{})
			if err := tx.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			time.Sleep(40 * time.Second) // fake time of the bubble
			want, commit := model.ErrRowsMissing, done
			if slow {
				want = model.ErrStoreUnknown
				commit = func() error { time.Sleep(40 * time.Second); return nil }
			}
			s.lost[m.ID] = true
			_, err := tx.Commit(t.Context(), commit)
			if !errors.Is(err, want) || s.extended != 1 {
				t.Errorf("slow commit %v: got %v, %d rows extended; want %v and 1", slow, err, s.extended, want)
			}
			closeNow(t, p)
		})
	}
}

// The lease of a row with a NotBefore is not extended before a late commit: when it has
// ended, a compensator may have delivered the row before it is read back.
func TestC38_ARowThatWasDueIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		p := open(t, s, &fakeSender{answer: acked}, nil)
		m := msg("a")
		m.ID, m.NotBefore = model.NewID(), time.Now().Add(2*time.Second)
		tx := p.Tx(&fakeTx{})
		if err := tx.Publish(t.Context(), m, msg("b")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second) // fake time of the bubble
		s.lost[m.ID] = true
		if _, err := tx.Commit(t.Context(), done); !errors.Is(err, model.ErrStoreUnknown) {
			t.Errorf("got %v, want ErrStoreUnknown", err)
		}
		closeNow(t, p)
	})
}

// A transaction is committed only under a lease of its rows; where they cannot get one, it
// is rolled back, and nobody is left with half of it.
func TestCommitRollsBackWhatItCannotLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		p := open(t, s, &fakeSender{answer: acked}, nil)
		handle := &fakeTx{}
		tx := p.Tx(handle)
		if err := tx.Publish(t.Context(), msg("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second) // fake time of the bubble
		s.err = errDown
		_, err := tx.Commit(t.Context(), handle.Commit)
		if !errors.Is(err, model.ErrTxMustRollBack) || !errors.Is(err, errDown) {
			t.Errorf("got %v, want ErrTxMustRollBack around the cause", err)
		}
		if handle.commits != 0 || handle.rollbacks != 1 {
			t.Errorf("%d commits and %d roll-backs, want 0 and 1", handle.commits, handle.rollbacks)
		}
		closeNow(t, p)
	})
}

// What cannot be read back after the commit is not known to be there: an error with the
// ids, never a log line and nil.
func TestH6_WhatCannotBeReadBackIsAnError(t *testing.T) {
	t.Parallel()
	s := newMemStore()
	p := open(t, s, &fakeSender{answer: acked}, nil)
	defer closeNow(t, p)
	m := msg("a")
	m.ID = model.NewID()
	handle := &fakeTx{}
	err := publisher.Run(t.Context(), p, handle, func(ctx context.Context, out *publisher.Tx) error {
		err := out.Publish(t.Context(), m)
		s.err = errDown
		return err
	})
	var unknown *model.StoreError
	if !errors.As(err, &unknown) || !errors.Is(err, model.ErrStoreUnknown) || !errors.Is(err, errDown) ||
		!slices.Equal(unknown.IDs, []string{m.ID}) || handle.commits != 1 {
		t.Errorf("got %v after %d commits, want ErrStoreUnknown with the id, after 1", err, handle.commits)
	}
}

// A commit that failed may have happened; the rows are not sent by this process.
func TestH6_AFailedCommitIsUnknown(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{answer: acked}
	p := open(t, s, snd, nil)
	defer closeNow(t, p)
	tx := p.Tx(&fakeTx{})
	if err := tx.Publish(t.Context(), msg("a")); err != nil {
		t.Fatal(err)
	}
	_, err := tx.Commit(t.Context(), func() error { return errDown })
	if !errors.Is(err, model.ErrStoreUnknown) || !errors.Is(err, errDown) || snd.count() != 0 {
		t.Errorf("got %v, %d sends; want ErrStoreUnknown around the cause and none", err, snd.count())
	}
}

// A publisher that was closed commits nothing that it could not look after.
func TestH6_AClosedPublisherRollsBack(t *testing.T) {
	t.Parallel()
	p := open(t, newMemStore(), &fakeSender{answer: acked}, nil)
	handle := &fakeTx{}
	tx := p.Tx(handle)
	if err := tx.Publish(t.Context(), msg("a")); err != nil {
		t.Fatal(err)
	}
	closeNow(t, p)
	_, err := tx.Commit(t.Context(), handle.Commit)
	if !errors.Is(err, model.ErrClosed) || handle.commits != 0 || handle.rollbacks != 1 {
		t.Errorf("got %v, %d commits, %d roll-backs; want ErrClosed, 0 and 1", err, handle.commits, handle.rollbacks)
	}
}
