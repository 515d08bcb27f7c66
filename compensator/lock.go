package compensator

import (
	"context"
	"errors"
	"sync"
)

// The errors of a [Locker] that did not call its function.
var (
	// ErrLocked: others hold every slot. Nothing to do: they are working.
	ErrLocked = errors.New("every lock slot is held by others")
	// ErrLockUnavailable: the lock service does not answer, and the locker is set to pause
	// then. Runs go on when it answers again.
	ErrLockUnavailable = errors.New("the lock service does not answer")
	// ErrLockLost is the cause of the context of a run whose slot was lost or could not be
	// renewed in time.
	ErrLockLost = errors.New("the lock slot was lost")
)

// Locker bounds how many runs go on at a time in a replica set. It must be safe for
// concurrent use.
type Locker interface {
	// Do takes a slot, calls fn and gives the slot back, also when fn panics or ctx has
	// ended. It does not wait for a slot: when others hold them all it returns
	// [ErrLocked] at once. The context given to fn ends, with a cause that is
	// [ErrLockLost], when the slot is lost; held reports at the instant of its call
	// whether it is still ours by this process's own clocks, and is cheap. scope names
	// what is locked: compensators of different scopes do not exclude each other. The
	// error is fn's own, or ErrLocked, or [ErrLockUnavailable].
	Do(ctx context.Context, scope string, fn func(ctx context.Context, held func() bool) error) error
}

// LocalLocker is a [Locker] within one process, for when there is no Redis: replicas in
// other processes are then kept apart by their claims alone. The zero value has one slot.
type LocalLocker struct {
	// Slots is the number of runs at a time in each scope. Defaults to 1.
	Slots int

	mu    sync.Mutex
	taken map[string]int
}

// Do implements [Locker]. The slot is never lost.
func (l *LocalLocker) Do(
	ctx context.Context, scope string, fn func(context.Context, func() bool) error,
) error {
	if !l.take(scope) {
		return ErrLocked
	}
	defer l.giveBack(scope)
	return fn(ctx, func() bool { return true })
}

func (l *LocalLocker) take(scope string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[scope] >= max(l.Slots, 1) {
		return false
	}
	if l.taken == nil {
		l.taken = map[string]int{}
	}
	l.taken[scope]++
	return true
}

func (l *LocalLocker) giveBack(scope string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[scope]--; l.taken[scope] == 0 {
		delete(l.taken, scope)
	}
}
