package publisher_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// memStore keeps rows in memory and counts calls.
type memStore struct {
	mu                sync.Mutex
	rows              map[string]model.TransMessage
	delays            map[string]time.Duration
	err               error // Insert, InsertTx and ReadBack fail with it
	renewed, extended int
	lost              map[string]bool // rows whose transaction did not really commit
}

func newMemStore() *memStore {
	return &memStore{
		rows: map[string]model.TransMessage{}, delays: map[string]time.Duration{}, lost: map[string]bool{},
	}
}

var _ publisher.Store = (*memStore)(nil)

func (s *memStore) Insert(_ context.Context, drafts []model.Draft) ([]model.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	out := make([]model.Stored, len(drafts))
	for i := range drafts {
		d := drafts[i]
		old, exists := s.rows[d.ID]
		switch {
		case !exists:
			wait := time.Until(time.UnixMilli(d.NotBefore))
			s.rows[d.ID], s.delays[d.ID] = d.TransMessage, max(d.Delay, wait)
			out[i] = model.StoredNew
		case !model.SameContent(&old, &d.TransMessage):
			out[i] = model.StoredOther
		case old.Status == model.Dead:
			out[i] = model.StoredDead
		default:
			out[i] = model.StoredBefore
		}
	}
	return out, nil
}

func (s *memStore) InsertTx(
	ctx context.Context, _ model.Execer, drafts []model.Draft, _ func(string) *model.TransMessage,
) ([]model.Stored, error) {
	return s.Insert(ctx, drafts)
}

func (s *memStore) ExtendTx(_ context.Context, _ model.Execer, ids []string, d time.Duration) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	for _, id := range ids {
		s.delays[id] = d
		s.extended++
	}
	return len(ids), nil
}

func (s *memStore) ReadBack(_ context.Context, ids []string) (map[string]model.RowState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	out := map[string]model.RowState{}
	for _, id := range ids {
		if r, ok := s.rows[id]; ok && !s.lost[id] {
			out[id] = model.RowState{Version: r.Version, Epoch: r.Epoch, Status: r.Status}
		}
	}
	return out, nil
}

func (s *memStore) Extend(context.Context, []model.Held, time.Duration) (int, error) { return 0, nil }

func (s *memStore) Renew(_ context.Context, _ string, keys []model.RowKey, _ time.Duration) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, k := range keys {
		id := k.ID
		if r, ok := s.rows[id]; ok && r.Version == 0 && r.Epoch == k.Epoch {
			r.Version = 1
			s.rows[id] = r
			out = append(out, id)
			s.renewed++
		}
	}
	return out, nil
}

func (s *memStore) Delete(_ context.Context, keys []model.RowKey) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		delete(s.rows, k.ID)
	}
	return len(keys), nil
}

func (s *memStore) Settle(_ context.Context, list []model.Settlement) ([]model.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]model.Settled, len(list))
	for i, st := range list {
		r, ok := s.rows[st.ID]
		switch {
		case !ok:
			out[i] = model.SettledGone
		case r.Version != st.Version || r.Epoch != st.Epoch:
			out[i] = model.SettledFenced
		default:
			r.Version++
			r.Status, r.LastCode = st.Status, st.Outcome.Code
			r.Attempts += st.AttemptsDelta
			r.Failures += st.FailuresDelta
			s.rows[st.ID], s.delays[st.ID] = r, st.Delay
			out[i] = model.SettledDone
		}
	}
	return out, nil
}

func (s *memStore) LateAcks(context.Context, []model.RowKey, string) ([]model.RowKey, error) {
	return nil, nil
}

func (s *memStore) Restore(_ context.Context, rows []model.TransMessage, _ []model.Settlement) ([]bool, error) {
	return make([]bool, len(rows)), nil
}

func (s *memStore) OldestDue(context.Context, string) (time.Duration, error) {
	return 6 * time.Minute, nil
}

func (s *memStore) MaxBody() int { return 8 << 20 }

func (s *memStore) row(id string) (model.TransMessage, time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[id]
	return r, s.delays[id], ok
}

// fakeTx is a caller's transaction that counts how it ends.
type fakeTx struct {
	statements         []string
	commits, rollbacks int
}

var _ publisher.Handle = (*fakeTx)(nil)

func (f *fakeTx) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	f.statements = append(f.statements, query)
	return driver.RowsAffected(0), nil
}

func (f *fakeTx) Commit() error   { f.commits++; return nil }
func (f *fakeTx) Rollback() error { f.rollbacks++; return nil }

// done is a commit that goes well.
func done() error { return nil }

// fakeSender answers each send by answer, or holds it when that is nil.
type fakeSender struct {
	mu       sync.Mutex
	full     bool
	reserved int
	sent     []confirms.Send
	answer   func(confirms.Send) model.Outcome
}

var _ publisher.Sender = (*fakeSender)(nil)

func (s *fakeSender) TryReserve(n int, _ int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return false
	}
	s.reserved += n
	return true
}

func (s *fakeSender) Release(n int, _ int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= n
}

func (s *fakeSender) Held(func(confirms.Handler)) {}

func (s *fakeSender) Waits(string, string) (model.Outcome, bool) { return model.Outcome{}, false }

func (s *fakeSender) Send(m confirms.Send) {
	s.mu.Lock()
	s.sent = append(s.sent, m)
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		s.finish(m, answer(m))
	}
}

func (s *fakeSender) finish(m confirms.Send, o model.Outcome) {
	m.Handler.Done(o)
	s.Release(1, 0)
}

func (s *fakeSender) FrameMax() int                 { return model.DefaultFrameMax }
func (s *fakeSender) ConfirmTimeout() time.Duration { return 15 * time.Second }

func (s *fakeSender) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

func (s *fakeSender) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserved
}

func acked(confirms.Send) model.Outcome { return model.Outcome{Kind: model.Acked} }

var errDown = errors.New("database down")
