package compensator_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/transmsg/transmsg/model"
)

// owedLine is an alert that is owed for a READY row, or told.
type owedLine struct{ due, since int64 }

// owe notes that the alert of a row is owed, once in an epoch; s.mu is held.
func (s *fakeStore) owe(kind model.AlertKind, r *model.TransMessage) {
	k := model.AlertKey{ID: r.ID, Kind: kind, Epoch: r.Epoch}
	if s.owes == nil {
		s.owes = map[model.AlertKey]*owedLine{}
	}
	if s.owes[k] == nil {
		s.owes[k] = &owedLine{due: nowMS(), since: nowMS()}
	}
}

func (s *fakeStore) ClaimAlerts(_ context.Context, c model.DeadClaim) ([]model.DueAlert, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	var out []model.DueAlert
	for k, line := range s.owes {
		r, ok := s.rows[k.ID]
		if !ok || r.Epoch != k.Epoch || r.Status != model.Ready {
			delete(s.owes, k)
			continue
		}
		if line.due <= nowMS() && len(out) < c.MaxRows {
			line.due = nowMS() + c.Lease.Milliseconds()
			r.Payload = nil
			out = append(out, model.DueAlert{Kind: k.Kind, Row: r, Since: line.since})
		}
	}
	slices.SortFunc(out, func(a, b model.DueAlert) int { return cmp.Compare(a.Row.ID, b.Row.ID) })
	return out, nil
}

func (s *fakeStore) MarkAlerts(_ context.Context, keys []model.AlertKey, next time.Duration) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n := 0
	for _, k := range keys {
		if line := s.owes[k]; line != nil {
			line.due = nowMS() + next.Milliseconds()
			n++
		}
	}
	return n, nil
}

func (s *fakeStore) SweepAlerts(_ context.Context, most int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for k := range s.owes {
		if r, ok := s.rows[k.ID]; n < most && (!ok || r.Epoch != k.Epoch || r.Status != model.Ready) {
			delete(s.owes, k)
			n++
		}
	}
	return n, s.err
}

// counted is the figures of the rows, as of one service; s.mu is held.
func (s *fakeStore) counted() []model.Stats {
	out := model.Stats{Service: "orders"}
	for _, r := range s.rows {
		if r.Status == model.Dead {
			out.Dead++
			continue
		}
		out.Ready++
		out.OldestReady = max(out.OldestReady, model.MillisToDuration(nowMS()-r.CreatedAt))
	}
	return []model.Stats{out}
}
