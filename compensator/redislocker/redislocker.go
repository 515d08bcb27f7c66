// Package redislocker is the lock of a replica set of compensators on Redis. Who uses it links
// a Redis client; without it replicas are kept apart by their claims.
package redislocker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/compensator"
)

// Defaults and bounds of [Config].
const (
	DefaultPrefix = "transmsg:compensator"
	DefaultTTL    = 15 * time.Second
	MinTTL        = 300 * time.Millisecond
	MaxTTL        = 10 * time.Minute
	MaxSlots      = 64

	callTimeout    = time.Second // one call; less when the TTL is short
	releaseTimeout = 2 * time.Second
)

// Config configures a [Locker].
type Config struct {
	// Client is the caller's Redis client; it stays the caller's to close. Required.
	Client redis.Scripter
	// Prefix begins the keys, which are "<prefix>:<scope>/<slot>". The scope of a compensator
	// begins with the identity of its database. Replicas with the same prefix and scope
	// exclude each other. Defaults to "transmsg:compensator".
	Prefix string
	// Slots is how many replicas may run at a time, 1 to 64. A slot is a lock, not a
	// partition of the rows: claims keep the holders apart. Defaults to 1.
	Slots int
	// TTL is how long a slot outlives a holder that died, 300 ms to 10 min. It is renewed
	// at a third of it. Defaults to 15 s.
	TTL time.Duration
	// PauseWhenDown makes a Redis that does not answer stop the runs. The default is to
	// go on: claims alone keep the replicas apart then, at the price of some scans in vain.
	PauseWhenDown bool
	// Logger is told when Redis stops answering and when it answers again. Nil is slog.Default().
	Logger *slog.Logger
}

// Locker is a [compensator.Locker] on Redis, shared by a replica set. The lock is an
// efficiency: Redis replicates asynchronously, so after a failover there may be two
// holders, and the claims keep them apart. Safe for concurrent use.
type Locker struct {
	cfg     Config
	locks   *redislock.Client
	log     *slog.Logger
	timeout time.Duration
	down    atomic.Bool
}

// New returns a locker, or an error that names the field out of bounds. It
// does not talk to Redis.
func New(cfg Config) (*Locker, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if cfg.Slots == 0 {
		cfg.Slots = 1
	}
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	switch {
	case cfg.Client == nil:
		return nil, errors.New("redislocker: config: Client is missing")
	case cfg.Slots < 1 || cfg.Slots > MaxSlots:
		return nil, fmt.Errorf("redislocker: config: Slots %d must be 1 to %d", cfg.Slots, MaxSlots)
	case cfg.TTL < MinTTL || cfg.TTL > MaxTTL:
		return nil, fmt.Errorf("redislocker: config: TTL %v must be %v to %v", cfg.TTL, MinTTL, MaxTTL)
	}
	log := cfg.Logger
	if c, ok := cfg.Client.(interface{ Options() *redis.Options }); ok { // a cluster has several addresses
		log = log.With("redis", c.Options().Addr)
	}
	return &Locker{
		cfg: cfg, locks: redislock.New(cfg.Client), log: log,
		timeout: min(callTimeout, cfg.TTL/3),
	}, nil
}

// Do implements [compensator.Locker].
func (l *Locker) Do(
	ctx context.Context, scope string, fn func(context.Context, func() bool) error,
) error {
	s, err := l.obtain(ctx, scope)
	switch {
	case errors.Is(err, compensator.ErrLocked):
		return err
	case err != nil && (l.cfg.PauseWhenDown || ctx.Err() != nil):
		return fmt.Errorf("%w: %w", compensator.ErrLockUnavailable, err)
	case err != nil:
		return fn(ctx, func() bool { return true })
	}
	run, cancel := context.WithCancelCause(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() { l.renew(run, s, cancel) })
	defer func() {
		cancel(nil)
		renewals.Wait()
		l.release(ctx, s)
	}()
	return fn(run, s.held)
}

// obtain tries each slot once, from a random one on.
func (l *Locker) obtain(ctx context.Context, scope string) (*slot, error) {
	first := rand.IntN(l.cfg.Slots)
	for i := range l.cfg.Slots {
		key := fmt.Sprintf("%s:%s/%d", l.cfg.Prefix, scope, (first+i)%l.cfg.Slots+1)
		since := time.Now()
		call, cancel := context.WithTimeout(ctx, l.timeout)
		// The token is random: one that names the host would let two runs share the lock.
		lock, err := l.locks.Obtain(call, key, l.cfg.TTL, nil)
		cancel()
		switch {
		case err == nil:
			l.answered()
			s := &slot{lock: lock, limit: l.cfg.TTL - l.cfg.TTL/6}
			s.renewed(since)
			return s, nil
		case !errors.Is(err, redislock.ErrNotObtained):
			l.failed(ctx, err)
			return nil, fmt.Errorf("obtain lock %s: %w", key, err)
		}
	}
	l.answered()
	return nil, compensator.ErrLocked
}

// renew keeps the slot until ctx ends, and cancels with a cause when it is lost.
func (l *Locker) renew(ctx context.Context, s *slot, cancel context.CancelCauseFunc) {
	wait := l.cfg.TTL / 3
	for sleep(ctx, wait) {
		left := s.left()
		if left <= 0 {
			cancel(fmt.Errorf("%w: not renewed in time", compensator.ErrLockLost))
			return
		}
		since := time.Now()
		call, done := context.WithTimeout(ctx, min(l.timeout, left))
		err := s.lock.Refresh(call, l.cfg.TTL, nil)
		done()
		switch {
		case err == nil:
			s.renewed(since)
			wait = l.cfg.TTL / 3
		case errors.Is(err, redislock.ErrNotObtained):
			cancel(fmt.Errorf("%w: somebody else has it or it expired", compensator.ErrLockLost))
			return
		default:
			wait = min(l.cfg.TTL/12, max(s.left(), 0))
		}
	}
}

// release gives the slot back under a context of its own: the run's may have ended, and
// the slot must not stay taken for its whole TTL because of that.
func (l *Locker) release(ctx context.Context, s *slot) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := s.lock.Release(ctx); err != nil && !errors.Is(err, redislock.ErrLockNotHeld) {
		l.log.Warn("release lock", "key", s.lock.Key(), "error", err)
	}
}

// Answers reports whether Redis answered the last time that a slot was asked for. While it
// does not, and the locker does not pause, runs go on without a lock.
func (l *Locker) Answers() bool { return !l.down.Load() }

// failed and answered log the change alone, not every run.
func (l *Locker) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && !l.down.Swap(true) {
		l.log.Warn("redis does not answer", "error", err, "paused", l.cfg.PauseWhenDown)
	}
}

func (l *Locker) answered() {
	if l.down.Swap(false) {
		l.log.Info("redis answers again")
	}
}

// slot is one lock held.
type slot struct {
	lock  *redislock.Lock
	limit time.Duration

	mu    sync.Mutex
	since time.Time // just before the last renewal that succeeded
}

func (s *slot) renewed(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = since
}

// left is the time in which the slot is surely ours, by the clock that ran further: the
// monotonic clock stands still while the machine is suspended, the wall clock may be set.
func (s *slot) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return s.limit - max(now.Sub(s.since), now.Round(0).Sub(s.since.Round(0)))
}

func (s *slot) held() bool { return s.left() > 0 }

// sleep waits for d and reports whether ctx is still live.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
