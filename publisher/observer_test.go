package publisher_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// goneStore finds every row gone that it settles, and fails the first settlement.
type goneStore struct {
	*memStore
	settles int
}

func (s *goneStore) Settle(_ context.Context, list []model.Settlement) ([]model.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settles++; s.settles == 1 {
		return nil, errDown
	}
	return slices.Repeat([]model.Settled{model.SettledGone}, len(list)), nil
}

func (s *goneStore) Restore(_ context.Context, rows []model.TransMessage, _ []model.Settlement) ([]bool, error) {
	return slices.Repeat([]bool{true}, len(rows)), nil
}

// observed collects what an Observer is told.
type observed struct {
	mu        sync.Mutex
	published []error
	restored  []string
	failed    []string
}

func (o *observed) observer() publisher.Observer {
	return publisher.Observer{
		Published: func(_ time.Duration, err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.published = append(o.published, err)
		},
		Restored: func(id string) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.restored = append(o.restored, id)
		},
		StoreError: func(op string, _ error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.failed = append(o.failed, op)
		},
	}
}

func TestObserverHearsOfTheStore(t *testing.T) {
	t.Parallel()
	s := &goneStore{memStore: newMemStore()}
	snd := &fakeSender{answer: func(confirms.Send) model.Outcome {
		return model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute}
	}}
	var o observed
	p := open(t, s, snd, func(c *publisher.Config) { c.Observers = []publisher.Observer{o.observer()} })
	r, err := p.Publish(t.Context(), msg("k"))
	if err != nil {
		t.Fatal(err)
	}
	s.err = &model.StoreError{Kind: model.ErrNotStored, Err: errDown}
	if _, err := p.PublishBatch(t.Context(), []model.Message{msg("a"), msg("b")}); err == nil {
		t.Fatal("the store is down and the batch is stored")
	}
	if err := p.Tx(&fakeTx{}).Publish(t.Context(), msg("c")); err == nil {
		t.Fatal("the store is down and the transaction goes on")
	}
	s.err = nil
	tx := p.Tx(&fakeTx{})
	if err := tx.Publish(t.Context(), msg("d")); err != nil {
		t.Fatal(err)
	}
	s.err = errDown
	if _, err := tx.Commit(t.Context(), done); err == nil {
		t.Fatal("the store is down and rows are read back")
	}
	closeNow(t, p)

	wants := []error{nil, model.ErrNotStored, model.ErrTxMustRollBack, nil}
	if len(o.published) != len(wants) {
		t.Fatalf("published %v, want %d calls", o.published, len(wants))
	}
	for i, want := range wants {
		if !errors.Is(o.published[i], want) {
			t.Errorf("call %d published %v, want %v", i, o.published[i], want)
		}
	}
	if !slices.Equal(o.restored, []string{r.ID()}) {
		t.Errorf("restored %q, want %q", o.restored, r.ID())
	}
	slices.Sort(o.failed)
	if want := []string{"read-back", "settle"}; !slices.Equal(o.failed, want) {
		t.Errorf("failed %q, want %q", o.failed, want)
	}
}
