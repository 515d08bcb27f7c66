package compensator_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
)

// namedStore is a store that says which tables it is.
type namedStore struct {
	*fakeStore

	mu   sync.Mutex
	id   string
	err  error
	asks int
}

func (s *namedStore) Identity(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	return s.id, s.err
}

// E9: two databases share a lock service with equal settings. The long drain of one does
// not keep the other's rows waiting, and replicas of one still exclude each other.
func TestE9_DatabasesDoNotStarveEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locker := &compensator.LocalLocker{} // stands for the Redis that all use
		large := &namedStore{fakeStore: newStore(), id: "large"}
		small := &namedStore{fakeStore: newStore(), id: "small", err: errDatabase}
		large.put(t, 1000, "orders", nil)
		large.before = func(model.Claim) { time.Sleep(time.Second) } // 100 s of work
		ids := small.put(t, 10, "orders", nil)
		var locked atomic.Int32
		to, other := newSender(), newSender()
		var all []*running
		for i, cfg := range []compensator.Config{
			{Store: large, Sender: to}, {Store: large, Sender: to}, {Store: small, Sender: other},
		} {
			cfg.Locker, cfg.BatchRows = locker, 10
			if i < 2 {
				cfg.Observers = []compensator.Observer{{RunSkipped: func(reason string) {
					if reason == compensator.SkipLocked {
						locked.Add(1)
					}
				}}}
			}
			all = append(all, start(t, cfg))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if other.total() != 0 {
			t.Error("a run without a lock, while the database did not say what to lock")
		}
		small.mu.Lock()
		small.err = nil
		small.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		once(t, other, ids)
		if large.left() == 0 || locked.Load() == 0 {
			t.Errorf("%d rows left of the long drain, %d runs of its replica locked out; want some of both",
				large.left(), locked.Load())
		}
		small.mu.Lock()
		asks := small.asks
		small.mu.Unlock()
		time.Sleep(3 * time.Minute)
		if small.asks != asks {
			t.Error("the identity is asked for again and again")
		}
		for _, r := range all {
			r.drained(t)
		}
	})
}

// lapsingLocker loses its slot when told, and says whether its service answers.
type lapsingLocker struct {
	lost    chan struct{}
	answers atomic.Bool
}

func (l *lapsingLocker) Answers() bool { return l.answers.Load() }

func (l *lapsingLocker) Do(
	ctx context.Context, _ string, fn func(context.Context, func() bool) error,
) error {
	return fn(ctx, func() bool {
		select {
		case <-l.lost:
			return false
		default:
			return true
		}
	})
}

// E9: a lock that is lost while a run's last outcomes come in is told too, and so is a lock
// service that does not answer.
func TestE9_LockLossNearTheEndIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, locker := newStore(), newSender(), &lapsingLocker{lost: make(chan struct{})}
		sender.delay = 3 * time.Second
		ids := store.put(t, 5, "orders", nil)
		var mu sync.Mutex
		var lost, runs, early, up, down int
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Locker: locker, Interval: time.Hour,
			Observers: []compensator.Observer{{
				LockLost: func(cause error) { mu.Lock(); lost++; mu.Unlock() },
				RunEnd: func(f compensator.RunStats) {
					mu.Lock()
					defer mu.Unlock()
					runs++
					if errors.Is(f.Cause, compensator.ErrLockLost) {
						early++
					}
				},
				LockService: func(answers bool) {
					mu.Lock()
					defer mu.Unlock()
					if answers {
						up++
					} else {
						down++
					}
				},
			}},
		})
		time.Sleep(time.Second) // all is sent, nothing answered
		close(locker.lost)
		time.Sleep(time.Minute)
		locker.answers.Store(true)
		time.Sleep(time.Minute)
		r.drained(t)
		once(t, sender, ids)
		mu.Lock()
		defer mu.Unlock()
		if lost != 1 || runs != 1 || early != 1 {
			t.Errorf("%d losses told, %d runs of which %d said to have lost the lock; want one of each",
				lost, runs, early)
		}
		if up == 0 || down == 0 {
			t.Errorf("the lock service was told up %d and down %d times, want both", up, down)
		}
	})
}
