package compensator

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-co-op/gocron/v2"

	"github.com/transmsg/transmsg/model"
)

// Defaults and bounds of [Config].
const (
	DefaultInterval     = time.Second
	MinInterval         = 10 * time.Millisecond
	DefaultBatchRows    = 500
	MaxBatchRows        = 5000
	DefaultBatchBytes   = 32 << 20
	DefaultLease        = time.Minute
	DefaultDrainTimeout = 20 * time.Second
	DefaultSlowStart    = 30 * time.Second
	DefaultAlertWindow  = time.Minute
	MinAlertWindow      = time.Second
	MaxAlertWindow      = 24 * time.Hour
	DefaultOldestReady  = 15 * time.Minute
	// DefaultEventRetention keeps the history of failed sends for a month.
	DefaultEventRetention = 30 * 24 * time.Hour
	MinRetention          = time.Hour
	// DefaultInboxRetention keeps what consumers have dealt with for a month.
	DefaultInboxRetention = 30 * 24 * time.Hour
	// DefaultQueueRetention is two weeks in which a stopped consumer's queue waits for it.
	DefaultQueueRetention = 14 * 24 * time.Hour
	// DefaultMaxBody is RabbitMQ's own default bound: what a publisher was allowed to
	// store, the compensator does not refuse.
	DefaultMaxBody = 128 << 20

	maxName = 64 // bytes of service and claimed_by in the table
)

// Config configures a [Compensator]. Store and Sender are required; the zero value of
// every other field is its default.
type Config struct {
	// Store holds the rows and Sender sends them. Both stay the caller's to close, after
	// Run has returned.
	Store  Store
	Sender Sender
	// Locker bounds the runs of a replica set. Defaults to a [LocalLocker] of this
	// Compensator alone: replicas are then kept apart by their claims.
	Locker Locker
	// Alerter is told of what needs a person. Defaults to a line of the log at level error,
	// unless Alerters are given.
	Alerter Alerter
	// Alerters are told as well, each by itself: every one gets every alert, and one that
	// hangs, fails or throttles holds up none of the others, as it would in one Alerter that
	// calls several.
	Alerters []Alerter
	// Policy is backoff and the limits of trying.
	Policy model.Policy
	// Services restricts the work to rows of these services, each as [model.CheckService]
	// accepts it. Empty means every service that has due rows.
	Services []string

	// Interval is the time from the start of one run to the next, at least 10 ms. A run
	// that takes longer delays the next. Defaults to 1 s, unless Cron is set.
	Interval time.Duration
	// Cron is a cron expression of five fields (or six, beginning with seconds) in UTC,
	// instead of Interval. Only one of the two may be set. Rows wait for the next firing
	// also for their retries, so keep it short.
	Cron string

	// BatchRows bounds one claim, 1 to 5000 rows. Larger claims drain faster and are
	// lost for longer to a crash. Defaults to 500.
	BatchRows int
	// BatchBytes bounds one claim in bytes of bodies and properties, at least 1; a single
	// larger row is claimed alone. Up to twice BatchRows and BatchBytes are in memory.
	// Defaults to 32 MiB.
	BatchBytes int64
	// Lease is how long claimed rows belong to this process; those of one that died are due
	// again after it. No send starts later than Lease - the sender's confirm timeout - 3 s
	// after its claim. Must be above BatchRows/Rate + confirm timeout + 3 s, where BatchRows
	// counts only as far as Rate lets one claim go. Defaults to 1 min.
	Lease time.Duration
	// Rate is the most messages sent per second. In any second at most 1.1 times as many are
	// sent. Defaults to [model.None].
	Rate float64
	// SlowStart is how long the rate climbs, from a tenth of Rate up to it, after the sender
	// had no healthy channel for more than 5 s. Without a Rate it climbs from 5,000 to 50,000
	// messages per second and has no limit then. Defaults to 30 s; may be [model.None].
	SlowStart time.Duration
	// Instance names this instance in the table, the log and alerts, 1 to 64 bytes of UTF-8
	// without NUL. It must differ between replicas. Defaults to host-pid-random.
	Instance string
	// DrainTimeout bounds how long Run goes on after its context has ended, waiting for
	// confirms and writing their outcomes. Keep it below the grace period of whatever ends
	// the process. Defaults to 20 s.
	DrainTimeout time.Duration
	// Limits are what rows are checked against before they are sent: a row that does not
	// pass goes DEAD instead of closing the connection under its neighbours. MaxBody
	// defaults to 128 MiB, FrameMax to what the sender negotiated.
	Limits model.Limits

	// Environment is a label of alerts, such as "production".
	Environment string
	// OperatorConfig is the path of a settings file on the machines of those who are alerted;
	// the commands in alerts name it, so that they run as they are. Empty names none: then
	// the environment there must say which database.
	OperatorConfig string
	// AlertWindow is the time between two alerts of one kind, service, exchange, routing key
	// and code, 1 s to 24 h. The first goes out at once (within a 60th of the window, or
	// 1 s); what follows is gathered into the next. More than three routing keys of one
	// exchange and cause within a window are told as one, and so are more than three
	// exchanges of one service and cause. Defaults to 1 min.
	AlertWindow time.Duration
	// OldestReady is the age since storing, or since its NotBefore, from which a service's
	// oldest READY row raises an alert, looked at once a minute and repeated as often as that age; at least 1 s.
	// Defaults to 15 min; may be [model.None].
	OldestReady time.Duration
	// EventRetention is the age from which the history of rows is deleted, at least 1 h.
	// Defaults to 30 days; may be [model.None].
	EventRetention time.Duration
	// DeadRetention is the time since they died or were edited after which DEAD rows are
	// deleted, at least 1 h: messages are then lost for good. Defaults to [model.None].
	DeadRetention time.Duration
	// Letters, where it is given, keeps dead letters, whose alerts are told as those of DEAD rows, once for each
	// service, queue and cause. Package collector fills it. Nil is for none.
	Letters Letters
	// LetterRetention is the time since their last change after which dead letters of any status are deleted, at least
	// 1 h, but for those whose alert is owed. Defaults to [model.None].
	LetterRetention time.Duration
	// InboxRetention is the age from which inbox records are deleted, at least 1 h. A message
	// that is delivered again after it has a second effect: so it must be at least
	// QueueRetention and DeadRetention. Defaults to 30 days, or to the longest of the three;
	// may be [model.None].
	InboxRetention time.Duration
	// QueueRetention is the longest time for which the broker's queues, dead-letter queues
	// too, keep a message that can still be delivered: InboxRetention is checked against it.
	// Nobody but who runs the broker knows it. Defaults to 14 days; may be
	// [model.None].
	QueueRetention time.Duration

	// Logger receives a line for every failed send and every run that ended early. Nil is
	// slog.Default().
	Logger *slog.Logger
	// Observers hear of what happens, in their order.
	Observers []Observer

	observer Observer // calls each of Observers
}

func (c Config) withDefaults() Config {
	if c.Interval == 0 && c.Cron == "" {
		c.Interval = DefaultInterval
	}
	setDefault(&c.BatchRows, DefaultBatchRows)
	setDefault(&c.BatchBytes, DefaultBatchBytes)
	setDefault(&c.Lease, DefaultLease)
	setDefault(&c.DrainTimeout, DefaultDrainTimeout)
	setDefault(&c.SlowStart, DefaultSlowStart)
	setDefault(&c.AlertWindow, DefaultAlertWindow)
	setDefault(&c.OldestReady, DefaultOldestReady)
	setDefault(&c.EventRetention, DefaultEventRetention)
	setDefault(&c.QueueRetention, DefaultQueueRetention)
	setDefault(&c.InboxRetention, max(DefaultInboxRetention, c.QueueRetention, c.DeadRetention))
	setDefault(&c.Limits.MaxBody, DefaultMaxBody)
	setDefault(&c.Instance, defaultInstance())
	c.Policy = c.Policy.WithDefaults()
	c.observer = joined(c.Observers)
	c.Services = slices.Sorted(slices.Values(c.Services))
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Locker == nil {
		c.Locker = &LocalLocker{}
	}
	if c.Alerter == nil && len(c.Alerters) == 0 {
		c.Alerter = logAlerter{c.Logger}
	}
	return c
}

// setDefault sets a field that has its zero value.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// defaultInstance is unique also where every container runs as pid 1 under one host name.
func defaultInstance() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", strings.ToValidUTF8(host[:min(len(host), 40)], ""), os.Getpid(),
		strings.ToLower(rand.Text()[:8]))
}

// validate reports the first field out of bounds, by name, value and bound.
func (c *Config) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("config: Store is missing")
	case c.Sender == nil:
		return errors.New("config: Sender is missing")
	case slices.Contains(c.Alerters, nil):
		return errors.New("config: Alerters: one of them is nil")
	case c.Interval != 0 && c.Cron != "":
		return fmt.Errorf("config: Interval %v and Cron %q exclude each other; set one", c.Interval, c.Cron)
	case c.Cron == "" && c.Interval < MinInterval:
		return fmt.Errorf("config: Interval %v must be at least %v", c.Interval, MinInterval)
	case c.BatchRows < 1 || c.BatchRows > MaxBatchRows:
		return fmt.Errorf("config: BatchRows %d must be 1 to %d", c.BatchRows, MaxBatchRows)
	case c.BatchBytes < 1:
		return fmt.Errorf("config: BatchBytes %d must be at least 1", c.BatchBytes)
	case !(c.Rate >= 0) && c.Rate != model.None: // also NaN
		return fmt.Errorf("config: Rate %v must not be negative, other than model.None", c.Rate)
	case c.DrainTimeout <= 0:
		return fmt.Errorf("config: DrainTimeout %v must be above 0", c.DrainTimeout)
	case c.Limits.MaxBody < 0 || c.Limits.FrameMax < 0:
		return fmt.Errorf("config: Limits %+v must not be negative", c.Limits)
	}
	for _, check := range []func() error{c.validateLease, c.validateNames, c.validateCron, c.validateTimes} {
		if err := check(); err != nil {
			return err
		}
	}
	if err := c.Policy.Validate(); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// validateLease checks that a row claimed last in a batch can still be sent and
// confirmed while it is ours.
func (c *Config) validateLease() error {
	sending := newPace(c.Rate, c.BatchRows, 0).span()
	confirm := c.Sender.ConfirmTimeout()
	if bound := sending + confirm + model.LeaseMargin; c.Lease <= bound {
		return fmt.Errorf("config: Lease %v must be above %v: batch/Rate %v + the sender's confirm timeout %v + %v",
			c.Lease, bound, sending, confirm, model.LeaseMargin)
	}
	return nil
}

// validateTimes checks what alerts, slow start and retention go by.
func (c *Config) validateTimes() error {
	switch {
	case c.SlowStart < 0 && c.SlowStart != model.None:
		return fmt.Errorf("config: SlowStart %v must be above 0, or model.None", c.SlowStart)
	case c.AlertWindow < MinAlertWindow || c.AlertWindow > MaxAlertWindow:
		return fmt.Errorf("config: AlertWindow %v must be %v to %v", c.AlertWindow, MinAlertWindow, MaxAlertWindow)
	case c.OldestReady < time.Second && c.OldestReady != model.None:
		return fmt.Errorf("config: OldestReady %v must be at least 1s, or model.None", c.OldestReady)
	case c.EventRetention < MinRetention && c.EventRetention != model.None:
		return fmt.Errorf("config: EventRetention %v must be at least %v, or model.None",
			c.EventRetention, MinRetention)
	case c.DeadRetention != 0 && c.DeadRetention != model.None && c.DeadRetention < MinRetention:
		return fmt.Errorf("config: DeadRetention %v must be at least %v, or model.None", c.DeadRetention, MinRetention)
	case c.LetterRetention != 0 && c.LetterRetention != model.None && c.LetterRetention < MinRetention:
		return fmt.Errorf("config: LetterRetention %v must be at least %v, or model.None", c.LetterRetention,
			MinRetention)
	case c.LetterRetention > 0 && c.Letters == nil:
		return fmt.Errorf("config: LetterRetention %v needs Letters, the store that keeps them", c.LetterRetention)
	}
	return c.validateInbox()
}

// validateInbox refuses a retention after which messages can still come back.
func (c *Config) validateInbox() error {
	never := c.InboxRetention == model.None
	switch {
	case c.InboxRetention < MinRetention && !never:
		return fmt.Errorf("config: InboxRetention %v must be at least %v, or model.None",
			c.InboxRetention, MinRetention)
	case c.QueueRetention < 0 && c.QueueRetention != model.None:
		return fmt.Errorf("config: QueueRetention %v must be above 0, or model.None", c.QueueRetention)
	case c.InboxRetention < c.QueueRetention && !never:
		return fmt.Errorf("config: InboxRetention %v must be at least QueueRetention %v: a message that waits "+
			"in a queue for longer than its record is kept has a second effect", c.InboxRetention, c.QueueRetention)
	case c.InboxRetention < c.DeadRetention && !never:
		return fmt.Errorf("config: InboxRetention %v must be at least DeadRetention %v: a DEAD message that is "+
			"replayed after its record was deleted has a second effect", c.InboxRetention, c.DeadRetention)
	}
	return nil
}

// alerters are all that are told.
func (c *Config) alerters() []Alerter {
	if c.Alerter == nil {
		return c.Alerters
	}
	return append([]Alerter{c.Alerter}, c.Alerters...)
}

// alertEvery is the time between two looks at alerts.
func (c *Config) alertEvery() time.Duration { return max(time.Second, c.AlertWindow/60) }

// validateNames checks what is written to the table or compared with it.
func (c *Config) validateNames() error {
	if reason := badName(c.Instance); reason != "" {
		return fmt.Errorf("config: Instance %q %s; correct it, or leave it empty for host-pid-random",
			c.Instance, reason)
	}
	for i, s := range c.Services {
		if err := model.CheckService(s); err != nil {
			return fmt.Errorf("config: Services: %q %w; name it as its publishers do, or leave Services empty for all",
				s, err)
		}
		if i > 0 && c.Services[i-1] == s {
			return fmt.Errorf("config: Services: %q is there twice; remove one", s)
		}
	}
	return nil
}

// badName says why a name does not fit its column on every store, or "".
func badName(s string) string {
	switch {
	case len(s) > maxName:
		return fmt.Sprintf("has %d bytes, the limit is %d", len(s), maxName)
	case !utf8.ValidString(s):
		return "must be valid UTF-8"
	case strings.Contains(s, "\x00"):
		return "must not contain NUL"
	}
	return ""
}

func (c *Config) validateCron() error {
	if c.Cron == "" {
		return nil
	}
	if strings.Contains(c.Cron, "TZ=") {
		return fmt.Errorf("config: Cron %q must be in UTC, without a zone", c.Cron)
	}
	if err := gocron.NewDefaultCron(c.cronSeconds()).IsValid(c.Cron, time.UTC, time.Now()); err != nil {
		return fmt.Errorf("config: Cron %q is not an expression of 5 or 6 fields: %w", c.Cron, err)
	}
	return nil
}

// cronSeconds reports whether Cron begins with a field of seconds.
func (c *Config) cronSeconds() bool { return len(strings.Fields(c.Cron)) == 6 }

// scope names what a lock slot covers: compensators of other services do not wait.
func (c *Config) scope() string {
	if len(c.Services) == 0 {
		return "all"
	}
	return strings.Join(c.Services, ",")
}
