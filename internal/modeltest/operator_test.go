package modeltest_test

import (
	"errors"
	"fmt"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/model"
)

// act names one row, as an operator does from a list that is already old.
func act(id string, status model.Status) model.OperatorAct {
	return model.OperatorAct{
		Selection: model.Selection{IDs: []string{id}, Filter: model.Filter{Status: status}}, Actor: "operator",
	}
}

// replay makes a DEAD row READY again, in a new epoch.
func (w *walk) replay(t *rapid.T) {
	id := w.pick(t)
	if id == "" {
		return
	}
	m, want := w.messages[id], 0
	if m.row != nil && m.row.Status == model.Dead {
		want = 1
		r := m.row
		r.Status, r.Attempts, r.Failures, r.Claims, r.Instance, r.Due = model.Ready, 0, 0, 0, "", w.clock
		r.Version++
		r.Epoch++
	}
	if n, err := w.store.Replay(w.ctx, act(id, ""), 0); err != nil || n != want {
		t.Fatalf("replay %s = %d, %v; want %d", id, n, err, want)
	}
}

// discard deletes a row for good, unless it is being sent.
func (w *walk) discard(t *rapid.T) {
	id := w.pick(t)
	if id == "" {
		return
	}
	status := rapid.SampledFrom([]model.Status{model.Dead, model.Ready}).Draw(t, "status")
	m, want := w.messages[id], 0
	if m.row != nil && m.row.Status == status && !m.row.leased(w.clock) {
		want = 1
		m.row, m.discarded = nil, true
	}
	if n, err := w.store.Discard(w.ctx, act(id, status)); err != nil || n != want {
		t.Fatalf("discard %s %s = %d, %v; want %d", status, id, n, err, want)
	}
}

// edit corrects a row, in a new epoch, unless it is being sent.
func (w *walk) edit(t *rapid.T) {
	id := w.pick(t)
	if id == "" {
		return
	}
	m := w.messages[id]
	var want error
	switch {
	case m.row == nil:
		want = model.ErrNotFound
	case m.row.leased(w.clock):
		want = model.ErrLeased
	}
	body := []byte(fmt.Sprintf("body %d", m.epoch+1))
	err := w.store.Edit(w.ctx, id, model.Edit{Body: &body, Actor: "operator"})
	if !errors.Is(err, want) {
		t.Fatalf("edit %s = %v, want %v", id, err, want)
	}
	if want != nil {
		return
	}
	m.row.Version++
	m.row.Epoch++
	m.row.Claims = 0
	m.row.Instance, m.row.Body = "", string(body)
}
