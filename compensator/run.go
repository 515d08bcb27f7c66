package compensator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

// storeTimeout bounds one claim or one search for services. They run detached from Run's
// context: a claim that was cut off may have committed, and its rows would wait for the
// end of their lease.
const storeTimeout = 10 * time.Second

// reopenTime is how long a run waits for a channel to be opened again.
const reopenTime = 500 * time.Millisecond

// Causes of a run that ends before nothing is due.
var (
	errNotReady = errors.New("the sender has no healthy channel")
	errStuck    = errors.New("the sender takes nothing now")
	errBehind   = errors.New("outcomes cannot be written")
	errTooLate  = errors.New("no room at the sender within the lease")
)

// run is one run: from taking the slot to the writing of its last outcome.
type run struct {
	c       *Compensator
	held    func() bool
	cursors map[string]place // where the next claim of a service goes on

	jury     jury
	mu       sync.Mutex
	figures  RunStats
	seen     int // outcomes that were answers, at the last look of stuck
	deferred int // and those that were not
}

func newRun(c *Compensator, held func() bool) *run {
	return &run{c: c, held: held, cursors: map[string]place{}}
}

// do drains until nothing is due, then waits for the outcomes. ctx ends the claiming,
// hard everything.
func (r *run) do(ctx, hard context.Context) {
	start := time.Now()
	r.c.cfg.observer.RunStart()
	cause := errors.New("panic")
	defer func() {
		f := r.snapshot()
		f.Duration, f.Cause = time.Since(start), cause
		r.c.cfg.observer.RunEnd(f)
	}()
	cause = r.drain(ctx, hard)
	r.report(ctx, cause)
	if err := r.finish(hard); err != nil {
		r.c.log.Warn("run ends with outcomes outstanding", "rows", r.c.unanswered.count(), "error", err)
		cause = errors.Join(cause, err)
	}
	if !errors.Is(cause, ErrLockLost) && (!r.held() || errors.Is(context.Cause(ctx), ErrLockLost)) {
		cause = errors.Join(cause, fmt.Errorf("%w: near the end of the run", ErrLockLost))
		r.c.cfg.observer.LockLost(cause)
		r.c.log.Warn("lock lost while the last outcomes came in", "error", cause)
	}
}

func (r *run) report(ctx context.Context, cause error) {
	switch {
	case cause == nil:
	case errors.Is(cause, ErrLockLost):
		r.c.cfg.observer.LockLost(cause)
		r.c.log.Warn("run ended early", "error", cause)
	case ctx.Err() != nil:
		r.c.log.Debug("run ended early", "error", cause)
	default:
		r.c.log.Warn("run ended early", "error", cause)
	}
}

// finish waits until every row sent has its outcome and every outcome is written. It is
// bounded by a lease: after that the rows are anybody's.
func (r *run) finish(hard context.Context) error {
	ctx, cancel := context.WithTimeout(hard, r.c.cfg.Lease)
	defer cancel()
	err := r.c.unanswered.wait(ctx, 0, 0)
	r.endJury()
	if err != nil {
		return err
	}
	return r.c.batcher.Flush(ctx)
}

// drain serves the due services one batch in turn, round by round, until a round finds
// nothing. It looks for services in each round, so that a large backlog of one does not
// hide another's.
func (r *run) drain(ctx, hard context.Context) error {
	r.c.pace.unused(0)
	for {
		services, err := r.services(ctx, hard)
		if err != nil {
			return err
		}
		r.judge(r.c.cfg.Lease / 4) // in time for their leases
		restarted, rows := len(r.cursors) > 0, 0
		for _, service := range services {
			n, err := r.batch(ctx, hard, service)
			if err != nil {
				return err
			}
			rows += n
		}
		switch {
		case rows > 0:
		case len(services) > 0 && restarted:
			// Rows became due behind a cursor; batch has reset it.
		default:
			return nil
		}
		if r.stuck() {
			return errStuck
		}
	}
}

// services returns the services to serve in this round.
func (r *run) services(ctx, hard context.Context) ([]string, error) {
	if err := r.stop(ctx); err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(hard, storeTimeout)
	defer cancel()
	due, err := r.c.cfg.Store.Services(call)
	if err != nil {
		r.c.cfg.observer.StoreError("services", err)
		return nil, fmt.Errorf("find due services: %w", err)
	}
	if only := r.c.cfg.Services; len(only) > 0 {
		due = slices.DeleteFunc(due, func(s string) bool { return !slices.Contains(only, s) })
	}
	return due, nil
}

// batch claims rows of one service and sends them. It returns how many it claimed.
func (r *run) batch(ctx, hard context.Context, service string) (int, error) {
	limit, err := r.capacity(ctx)
	if err != nil {
		return 0, err
	}
	if r.cursors[service].lone {
		if err := r.nothingElse(ctx); err != nil {
			return 0, err
		}
	}
	since := time.Now() // before the claim: its lease began later
	claimed, err := r.claim(hard, service, limit)
	if err != nil {
		return 0, err
	}
	leastCharged(claimed.Rows)
	next, waited := 0, 0
	// Also after a panic: a row that cannot be sent now is handed back, not left to its lease.
	defer func() { r.handBack(claimed.Rows[next:]) }()
	lone := len(claimed.Rows) == 1 && claimed.Rows[0].LoneClaims > 0
	if lone {
		if err := r.nothingElse(ctx); err != nil { // after a bound of another kind
			return 1, err
		}
	}
	for next < len(claimed.Rows) {
		s := r.newSend(&claimed.Rows[next])
		switch s.prepare() {
		case waiting:
			waited++
			fallthrough
		case settled:
			next++
			continue
		case toSend:
		}
		refused, err := r.reserve(ctx, since, s.size())
		if err != nil {
			return len(claimed.Rows), err
		}
		next++
		if refused != nil {
			s.settle(refusal(model.CodeInvalid, refused, false))
			continue
		}
		s.start(since)
	}
	r.c.pace.unused(waited)
	if lone { // the next claim's rows are innocent
		return 1, r.nothingElse(ctx)
	}
	return len(claimed.Rows), nil
}

// capacity waits until the pipeline takes another batch and returns how many rows that may
// have: at most one batch is outstanding when the next is claimed.
func (r *run) capacity(ctx context.Context) (int, error) {
	cfg := &r.c.cfg
	wait, cancel := context.WithTimeoutCause(ctx, cfg.Lease, errStuck)
	defer cancel()
	if err := r.c.unanswered.wait(wait, cfg.BatchRows, cfg.BatchBytes); err != nil {
		return 0, err
	}
	if !r.c.batcher.Accepts(2 * cfg.BatchRows) {
		flush, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		if err := r.c.batcher.Flush(flush); err != nil {
			return 0, errBehind
		}
	}
	limit, err := r.c.pace.take(ctx)
	if err != nil {
		return 0, err
	}
	return limit, r.stop(ctx)
}

// reserve takes room for one row at the sender. It gives up when the run must stop or
// the row's lease leaves no time for a send. A row that the sender can never take, being
// too large for it, is refused with the sender's words.
func (r *run) reserve(ctx context.Context, since time.Time, size int64) (refused, err error) {
	const look = 100 * time.Millisecond
	for {
		if err := r.stop(ctx); err != nil {
			return nil, err
		}
		if r.c.cfg.Sender.TryReserve(1, size) {
			return nil, nil
		}
		if time.Since(since) > r.c.within() {
			return nil, errTooLate
		}
		wait, cancel := context.WithTimeout(ctx, look)
		err := r.c.cfg.Sender.Reserve(wait, 1, size)
		waited := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			return nil, nil
		case errors.Is(err, model.ErrClosed):
			return nil, err
		case !waited:
			return err, nil
		}
	}
}

// within is how long after its claim a row may still be sent.
func (c *Compensator) within() time.Duration {
	return c.cfg.Lease - c.cfg.Sender.ConfirmTimeout() - model.LeaseMargin
}

// stop says why the run must not go on, asked before each step.
func (r *run) stop(ctx context.Context) error {
	ready := r.c.ready() || r.reopened(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !r.held():
		return fmt.Errorf("%w: not renewed in time", ErrLockLost)
	case !ready:
		return errNotReady
	}
	return nil
}

// reopened waits for the channel after one that the broker closed because of a message:
// that takes a round trip or two, and the rows behind it are not to wait for the next run.
func (r *run) reopened(ctx context.Context) bool {
	wait, cancel := context.WithTimeout(ctx, reopenTime)
	defer cancel()
	if r.c.cfg.Sender.Reserve(wait, 1, 0) != nil {
		return false
	}
	r.c.cfg.Sender.Release(1, 0)
	return r.c.ready()
}

// stuck reports that since the last call the sender has handed rows back and answered
// nothing: claiming them again at once would be a hot loop.
func (r *run) stuck() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, deferred := r.figures.Acked+r.figures.Failed+r.figures.Unknown, r.figures.Deferred
	stuck := deferred > r.deferred && seen == r.seen
	r.seen, r.deferred = seen, deferred
	return stuck
}

func (r *run) count(f func(*RunStats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.figures)
}

func (r *run) snapshot() RunStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.figures
}
