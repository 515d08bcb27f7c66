package settle

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Defaults and bounds of [Config].
const (
	DefaultMaxPending = 8192
	DefaultTimeout    = 10 * time.Second
	maxBatch          = 500
	// maxHeld bounds the content of rows that wait for their settlement.
	maxHeld = 64 << 20
	// deleteLinger lets acked rows gather before a DELETE that is not full. A delete
	// that comes later costs nobody anything; one that is lost is only a repeat.
	deleteLinger = 25 * time.Millisecond
)

// The writes that Config.OnError names.
const (
	OpDelete  = "delete"
	OpSettle  = "settle"
	OpRestore = "restore"
	OpLateAck = "late-ack"
)

// Store is what the batcher writes through. Each call is one transaction, retried by
// the store where the database asks for it.
type Store interface {
	Delete(context.Context, []model.RowKey) (int, error)
	Settle(context.Context, []model.Settlement) ([]model.Settled, error)
	Restore(context.Context, []model.TransMessage, []model.Settlement) ([]bool, error)
	// LateAcks is told the keys of a Delete that did not find all its rows. It returns those
	// whose row was edited after the message was sent, and notes them in the history.
	LateAcks(ctx context.Context, keys []model.RowKey, instance string) ([]model.RowKey, error)
}

// Config configures a [Batcher].
type Config struct {
	Store  Store
	Policy model.Policy // with defaults
	// Instance is stored with each event: who sent.
	Instance string
	// MaxPending is the number of results that may wait to be written before Accepts says
	// no. Defaults to 8192. It bounds the repeats after a crash, with the window.
	MaxPending int
	// Timeout bounds one write. Defaults to 10 s.
	Timeout time.Duration
	// OnSettled, if set, is called once a result that is not an ack has been written, from
	// one of the batcher's goroutines. It must not block. After a write that was committed
	// and whose answer was lost, or whose Restore failed, the repeat finds the batch's rows
	// fenced: use it for figures and logs, and base nothing else on it.
	OnSettled func(*Result, Decision, model.Settled)
	// OnRestored, if set, is called for each row that was found gone and inserted again.
	// Rules as for OnSettled.
	OnRestored func(*model.TransMessage)
	// OnError, if set, is called for each failed write, with [OpDelete], [OpSettle],
	// [OpRestore] or [OpLateAck]. The write is tried again. Rules as for OnSettled.
	OnError func(op string, err error)
	// Logger receives failed sends, equal ones gathered, and failed writes. Nil is slog.Default().
	Logger *slog.Logger
}

// Result is one send's outcome on its way to the store. Use one Result per send, and
// leave it alone after Add but for LateAck.
type Result struct {
	// Row is the row as it was sent: id, epoch, version, counts; and its content, in
	// case it has to be inserted again.
	Row     *model.TransMessage
	Outcome model.Outcome
	// Age is as in [Facts].
	Age time.Duration
	// Delay is the least time until a row whose outcome is Deferred or Unknown is due again.
	// Other outcomes have the policy's delay.
	Delay time.Duration
	// Closes is 1 where the row ended its connection and is acquitted, see [model.Settlement].
	Closes int

	decision Decision
	met      model.Settled // what Settle found, once it is written
}

// Batcher turns results into as few writes as it can: acked rows leave by DELETE in
// sorted batches, the others are updated in one transaction a batch. What arrives while
// one write runs goes into the next. A write that fails is tried again until it
// succeeds or the batcher is closed: until then nothing is forgotten, and after a crash
// the rows' leases end and the compensator sends them. Safe for concurrent use. It runs
// goroutines only while there is something to write.
type Batcher struct {
	cfg      Config
	log      *slog.Logger
	deletes  queue[model.RowKey]
	settles  queue[*Result]
	held     atomic.Int64 // bytes of the rows in settles
	failures *failures
}

// NewBatcher returns a Batcher for cfg. Store is required.
func NewBatcher(cfg Config) *Batcher {
	if cfg.MaxPending == 0 {
		cfg.MaxPending = DefaultMaxPending
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	b := &Batcher{cfg: cfg, log: cfg.Logger, failures: newFailures(cfg.Logger)}
	b.deletes.init(deleteLinger, b.writeDeletes)
	b.settles.init(0, b.writeSettles)
	return b
}

// Add takes one result. It never blocks and never refuses: the bound is Accepts, asked
// before the send.
func (b *Batcher) Add(r *Result) {
	r.decision = Decide(r.Outcome, Facts{
		Attempts: r.Row.Attempts, Failures: r.Row.Failures, Age: r.Age,
	}, b.cfg.Policy, rand.Float64())
	if r.decision.Delete {
		b.deletes.add(model.RowKey{ID: r.Row.ID, Epoch: r.Row.Epoch})
		return
	}
	if k := r.Outcome.Kind; k == model.Deferred || k == model.Unknown {
		r.decision.Delay = max(r.decision.Delay, r.Delay)
	}
	b.held.Add(int64(r.Row.Size))
	b.settles.add(r)
}

// LateAck says that a send whose result was added as unknown was acked after all: the
// row is deleted in its epoch, whatever its version is by now.
func (b *Batcher) LateAck(r *Result) {
	b.deletes.add(model.RowKey{ID: r.Row.ID, Epoch: r.Row.Epoch})
}

// Accepts reports whether n more sends may be started: results waiting to be written are
// below MaxPending and hold less than 64 MiB. A database that is down thus stops the
// sending instead of filling memory.
func (b *Batcher) Accepts(n int) bool {
	return b.Pending()+n <= b.cfg.MaxPending && b.held.Load() < maxHeld
}

// Pending is the number of results not yet written.
func (b *Batcher) Pending() int { return b.deletes.pending() + b.settles.pending() }

// Flush waits until everything added before the call has been written, or ctx ends.
func (b *Batcher) Flush(ctx context.Context) error {
	if err := b.deletes.flush(ctx); err != nil {
		return err
	}
	return b.settles.flush(ctx)
}

// Close writes what is left within ctx and stops all retries. Results added later are
// dropped. When ctx ends first the error is [model.ErrNotDrained] and says how many
// rows keep their state: they stay READY and leased until their leases end. It returns
// within some seconds after ctx at the latest.
func (b *Batcher) Close(ctx context.Context) error {
	// Both queue are closed, also when the first does not drain in time.
	n := b.deletes.close(ctx)
	n += b.settles.close(ctx)
	b.failures.flush()
	if n > 0 {
		return fmt.Errorf("settle: %w: %d results not written", model.ErrNotDrained, n)
	}
	return nil
}
