package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// Defaults of [Config].
const (
	DefaultSendBudget = 12 * time.Second
	// lagLimit is the age of the oldest due row from which a publisher says that
	// nobody compensates.
	lagLimit = 5 * time.Minute
	lagCheck = time.Minute
	// afterCommit bounds the read-back and the hand-over to the sender after a commit.
	afterCommit = 10 * time.Second
	maxInstance = 64
)

// Store is what a publisher needs of the store; store/gormstore has it.
type Store interface {
	settle.Store
	Insert(context.Context, []model.Draft) ([]model.Stored, error)
	// InsertTx asks own for what this very transaction has stored under an id: no other connection
	// can see that. It returns nil for nothing.
	InsertTx(
		ctx context.Context, x Execer, rows []model.Draft, own func(id string) *model.TransMessage,
	) ([]model.Stored, error)
	ExtendTx(ctx context.Context, x Execer, ids []string, lease time.Duration) (int, error)
	ReadBack(ctx context.Context, ids []string) (map[string]model.RowState, error)
	Renew(ctx context.Context, instance string, keys []model.RowKey, lease time.Duration) ([]string, error)
	Extend(ctx context.Context, held []model.Held, lease time.Duration) (int, error)
	OldestDue(ctx context.Context, service string) (time.Duration, error)
	MaxBody() int
}

// Execer is the part of a transaction that a [Tx] borrows: *sql.Tx, a *sql.Conn after BEGIN, sqlx
// and gorm's transactions have it. A handle without an open transaction is refused.
type Execer = model.Execer

// Sender is what a publisher needs of the AMQP engine; confirms.Sender is one.
type Sender interface {
	TryReserve(n int, bytes int64) bool
	Release(n int, bytes int64)
	Waits(exchange, routingKey string) (why model.Outcome, waits bool)
	Send(confirms.Send)
	Held(f func(confirms.Handler))
	FrameMax() int
	ConfirmTimeout() time.Duration
}

// Config configures a [Publisher]. Service, Store and Sender are required; the zero
// value of every other field means its default. The caller keeps Store and Sender and
// closes them after the Publisher.
type Config struct {
	// Service owns the rows: what [model.CheckService] accepts, 1 to 64 bytes of UTF-8 without
	// white space at either end. Compensators serve by it.
	Service string
	Store   Store
	Sender  Sender
	// Instance names this process in leases and history, at most 64 bytes. Defaults to
	// host name, process id and a random part.
	Instance string
	// MaxBody is the largest body in bytes, at most what the store takes. It must be
	// below the broker's max_message_size. Defaults to 4 MiB.
	MaxBody int
	// SendBudget is how long after storing a row this process may still begin to send
	// it. Defaults to 12 s.
	SendBudget time.Duration
	// Lease is how long a new row belongs to this process, for its first send, before it is due
	// for a compensator. At least the sender's confirm timeout + 3 s + SendBudget, or a compensator
	// would send what is still on its way. Defaults to exactly that.
	Lease time.Duration
	// Policy gives the delay after a failed first send. MaxAttempts and MaxAge should be
	// those of the compensator. Defaults as in [model.Policy].
	Policy model.Policy
	// MaxUnsettled bounds the messages whose first send has begun or is about to and whose
	// result is not yet written; above it messages are stored and left to the compensator.
	// It bounds the repeats after a crash. Below the sender's Window times Channels the
	// window is never full. Defaults to 8192.
	MaxUnsettled int
	// StampStored adds the header [model.HeaderStoredAt] with this process's time of storing
	// to every message. Defaults to no.
	StampStored bool
	// Observers hear of what happens, in their order.
	Observers []Observer
	// Logger receives failed sends and failed writes. Nil is slog.Default().
	Logger *slog.Logger

	observer Observer // calls each of Observers
}

func (c Config) withDefaults() Config {
	if c.Instance == "" {
		c.Instance = defaultInstance()
	}
	if c.MaxBody == 0 {
		c.MaxBody = model.DefaultMaxBody
	}
	if c.SendBudget == 0 {
		c.SendBudget = DefaultSendBudget
	}
	if c.Lease == 0 && c.Sender != nil {
		c.Lease = c.Sender.ConfirmTimeout() + model.LeaseMargin + c.SendBudget
	}
	if c.MaxUnsettled == 0 {
		c.MaxUnsettled = settle.DefaultMaxPending
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Policy = c.Policy.WithDefaults()
	c.observer = joined(c.Observers)
	return c
}

// storable says whether every store takes s as text: PostgreSQL has no NUL.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

func (c Config) validate() error {
	if err := model.CheckService(c.Service); err != nil {
		return fmt.Errorf("config: Service %q %w; name the service that owns the messages", c.Service, err)
	}
	switch {
	case c.Store == nil:
		return errors.New("config: Store is required: open one with store/gormstore")
	case c.Sender == nil:
		return errors.New("config: Sender is required: open one with package confirms")
	case len(c.Instance) > maxInstance || !storable(c.Instance):
		return fmt.Errorf("config: Instance %q must be at most %d bytes of UTF-8 without NUL", c.Instance, maxInstance)
	case c.MaxBody < 0:
		return fmt.Errorf("config: MaxBody %d must not be negative", c.MaxBody)
	case c.MaxBody > c.Store.MaxBody():
		return fmt.Errorf("config: MaxBody %d must be at most %d, what this database takes in one statement: "+
			"lower MaxBody or raise max_allowed_packet", c.MaxBody, c.Store.MaxBody())
	case c.SendBudget < time.Second:
		return fmt.Errorf("config: SendBudget %v must be at least 1s", c.SendBudget)
	case c.Lease < c.Sender.ConfirmTimeout()+model.LeaseMargin+c.SendBudget:
		return fmt.Errorf("config: Lease %v must be at least the confirm timeout %v + %v + SendBudget %v",
			c.Lease, c.Sender.ConfirmTimeout(), model.LeaseMargin, c.SendBudget)
	case c.MaxUnsettled < 1:
		return fmt.Errorf("config: MaxUnsettled %d must be at least 1", c.MaxUnsettled)
	}
	if err := c.Policy.Validate(); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// defaultInstance is host-pid-random, cut so that the unique part stays.
func defaultInstance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	unique := fmt.Sprintf("-%d-%s", os.Getpid(), uuid.NewString()[:8])
	if n := maxInstance - len(unique); len(host) > n {
		host = host[:n]
	}
	return host + unique
}
