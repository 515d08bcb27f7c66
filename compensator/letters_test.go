package compensator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
)

// fakeLetters keeps dead letters whose alert is owed until it is marked.
type fakeLetters struct {
	mu     sync.Mutex
	list   []model.DeadLetter
	purged time.Duration
}

func (f *fakeLetters) put(n int, queue string, status model.LetterStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		f.list = append(f.list, model.DeadLetter{
			ID: fmt.Sprintf("%s-%02d", queue, i), Service: "shop", Queue: queue, Status: status, Cause: "permanent",
			Text: "no such order", Key: "order-1", Attempts: 3, Epoch: 1, CreatedAt: nowMS(), AlertAt: nowMS(),
			Payload: []byte("SECRETBODY"),
		})
	}
}

func (f *fakeLetters) ClaimLetters(_ context.Context, c model.DeadClaim) (out []model.DeadLetter, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if l := &f.list[i]; l.AlertAt <= nowMS() && len(out) < c.MaxRows {
			l.AlertAt = nowMS() + c.Lease.Milliseconds()
			out = append(out, *l)
		}
	}
	return out, nil
}

func (f *fakeLetters) MarkLetters(_ context.Context, keys []model.RowKey, next time.Duration) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, k := range keys {
		for i := range f.list {
			if l := &f.list[i]; l.ID == k.ID && l.Epoch == k.Epoch {
				l.AlertAt = nowMS() + next.Milliseconds()
				n++
			}
		}
	}
	return n, nil
}

func (f *fakeLetters) LetterGroups(_ context.Context, filter model.LetterFilter) ([]model.LetterGroup, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := model.LetterGroup{First: nowMS()}
	for i := range f.list {
		if l := &f.list[i]; l.Status == filter.Status && (filter.Queue == "" || l.Queue == filter.Queue) {
			g.Rows, g.First = g.Rows+1, min(g.First, l.CreatedAt)
		}
	}
	return []model.LetterGroup{g}, nil
}

func (f *fakeLetters) PurgeLetters(_ context.Context, olderThan time.Duration, _ int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.purged = olderThan
	return 0, nil
}

// Dead letters are told once for each kind, queue and cause, what follows within the window is gathered, and many
// queues with one cause are told as one.
func TestDeadLettersAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		letters, alerts := &fakeLetters{}, &collector{}
		letters.put(7, "payments", model.LetterOpen)
		letters.put(1, "payments", model.LetterParked)
		begun := time.UnixMilli(nowMS())
		r := start(t, compensator.Config{
			Store: newStore(), Sender: newSender(), Alerter: alerts, Instance: "one", Letters: letters,
			LetterRetention: time.Hour,
		})
		time.Sleep(10 * time.Second)
		want := compensator.Alert{
			Kind: model.AlertLetter, Service: "shop", RoutingKey: "payments", Code: "permanent", Text: "no such order",
			Count: 7, First: begun, Last: begun, Instance: "one", Total: 7, Oldest: begun,
			Sample:  model.AlertSample{ID: "payments-00", Key: "order-1", Attempts: 3},
			Command: "transmsg dead-letters list --status OPEN --service shop --queue payments --cause permanent",
			Resend:  "transmsg dead-letters replay --service shop --queue payments --cause permanent",
		}
		parked := want
		parked.Kind, parked.Count, parked.Total, parked.Resend = model.AlertParked, 1, 1, ""
		parked.Command = "transmsg dead-letters list --status PARKED --service shop --queue payments --cause permanent"
		got := map[model.AlertKind]compensator.Alert{}
		for _, a := range alerts.got() {
			got[a.Kind] = a
		}
		if len(alerts.got()) != 2 || got[model.AlertLetter] != want || got[model.AlertParked] != parked {
			t.Errorf("got  %+v\nwant %+v\nand  %+v", alerts.got(), want, parked)
		}
		for _, q := range []string{"a", "b", "c", "d", "e"} {
			letters.put(2, q, model.LetterOpen)
		}
		time.Sleep(10 * time.Minute)
		r.drained(t)
		more := alerts.got()[2:]
		if len(more) != 1 || more[0].Count != 10 || more[0].RoutingKeys.Count != 5 || more[0].RoutingKey != "" {
			t.Errorf("five queues: %+v, want one alert of 10", more)
		}
		if letters.purged != time.Hour {
			t.Errorf("purged by %v, want an hour", letters.purged)
		}
	})
}

// The alert names kind and queue for people.
func TestDeadLetterAlertNamesItsQueue(t *testing.T) {
	t.Parallel()
	a := model.Alert{Kind: model.AlertLetter, Service: "shop", RoutingKey: "payments", Code: "permanent", Count: 3}
	if got, want := a.String(),
		"dead-letter: 3 message(s), service shop, queue payments, cause permanent"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
