package settle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// stubbornStore refuses every write that names one row, until it is told to yield.
type stubbornStore struct {
	*fakeStore
	id      string
	busy    bool // say which row it is
	yielded bool
}

var errLocked = errors.New("lock wait timeout")

// left returns what may be written, and the error for the rest.
func (s *stubbornStore) refuse(ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.yielded || !slices.Contains(ids, s.id):
		return nil
	case s.busy:
		return &model.BusyError{IDs: []string{s.id}, Err: errLocked}
	}
	return errLocked
}

func (s *stubbornStore) Delete(ctx context.Context, keys []model.RowKey) (int, error) {
	var ids []string
	var free []model.RowKey
	for _, k := range keys {
		ids = append(ids, k.ID)
		if k.ID != s.id {
			free = append(free, k)
		}
	}
	err := s.refuse(ids)
	switch {
	case err == nil:
		return s.fakeStore.Delete(ctx, keys)
	case s.busy:
		n, _ := s.fakeStore.Delete(ctx, free)
		return n, err
	}
	return 0, err
}

func (s *stubbornStore) Settle(ctx context.Context, list []model.Settlement) ([]model.Settled, error) {
	var ids []string
	for _, st := range list {
		ids = append(ids, st.ID)
	}
	err := s.refuse(ids)
	if err == nil {
		return s.fakeStore.Settle(ctx, list)
	}
	if !s.busy {
		return nil, err
	}
	out := make([]model.Settled, len(list))
	for i, st := range list {
		if st.ID != s.id {
			met, _ := s.fakeStore.Settle(ctx, []model.Settlement{st})
			out[i] = met[0]
		}
	}
	return out, err
}

// One row that cannot be written holds up nobody else, whether the store can name it or
// not, and it is written itself when it can be.
func TestOneLockedRowHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for _, kind := range []model.OutcomeKind{model.Acked, model.Returned} {
		for _, busy := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v named %v", kind, busy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { oneLockedRow(t, kind, busy) })
			})
		}
	}
}

func oneLockedRow(t *testing.T, kind model.OutcomeKind, busy bool) {
	ids := make([]string, 600)
	for i := range ids {
		ids[i] = fmt.Sprintf("row-%03d", i)
	}
	s := &stubbornStore{fakeStore: newFakeStore(ids...), id: "row-123", busy: busy}
	settled := map[string]int{}
	b := newBatcher(s, func(c *settle.Config) {
		c.OnSettled = func(r *settle.Result, _ settle.Decision, met model.Settled) {
			if met == model.SettledDone {
				settled[r.Row.ID]++
			}
		}
	})
	for _, id := range ids {
		b.Add(result(id, kind, "code"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush: %v, want it to wait for the locked row", err)
	}
	if n := b.Pending(); n != 1 {
		t.Errorf("%d results not written, want the locked row alone", n)
	}
	s.mu.Lock()
	s.yielded = true
	s.mu.Unlock()
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kind == model.Acked {
		if len(s.rows) != 0 {
			t.Errorf("%d rows left, want none", len(s.rows))
		}
		return
	}
	for _, id := range ids {
		if s.rows[id].Version != 1 || settled[id] != 1 {
			t.Errorf("%s: version %d, told %d times; want 1 and 1", id, s.rows[id].Version, settled[id])
		}
	}
}

// failingRestore fails its first calls.
type failingRestore struct {
	*fakeStore
	fails int
}

func (s *failingRestore) Restore(
	ctx context.Context, rows []model.TransMessage, list []model.Settlement,
) ([]bool, error) {
	if s.fails > 0 {
		s.fails--
		return nil, errDown
	}
	return s.fakeStore.Restore(ctx, rows, list)
}

// What has been written is not written or told again because a neighbour's row could not
// be inserted.
func TestFailedRestoreConcernsItsRowAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &failingRestore{fakeStore: newFakeStore("a", "c"), fails: 3}
		told := map[string][]model.Settled{}
		b := newBatcher(s, func(c *settle.Config) {
			c.OnSettled = func(r *settle.Result, _ settle.Decision, met model.Settled) {
				told[r.Row.ID] = append(told[r.Row.ID], met)
			}
		})
		for _, id := range []string{"a", "b", "c"} {
			b.Add(result(id, model.Returned, model.CodeNoRoute))
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.restored, []string{"b"}) {
			t.Errorf("restored %v, want b once", s.restored)
		}
		for id, want := range map[string]model.Settled{
			"a": model.SettledDone, "b": model.SettledGone, "c": model.SettledDone,
		} {
			if !slices.Equal(told[id], []model.Settled{want}) {
				t.Errorf("%s: told %v, want once %v", id, told[id], want)
			}
		}
	})
}

// A store call that does not come back keeps Close no longer than its limit.
func TestBatcherCloseDoesNotWaitForAHungStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &hungStore{fakeStore: newFakeStore("a"), release: make(chan struct{})}
		b := newBatcher(s, nil)
		b.Add(result("a", model.Acked, ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Close(ctx); !errors.Is(err, model.ErrNotDrained) {
			t.Errorf("got %v, want ErrNotDrained", err)
		}
		close(s.release)
		synctest.Wait()
	})
}

type hungStore struct {
	*fakeStore
	release chan struct{}
}

func (s *hungStore) Delete(context.Context, []model.RowKey) (int, error) {
	<-s.release
	return 0, errDown
}
