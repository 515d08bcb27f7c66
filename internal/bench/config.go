package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/transmsg/transmsg/confirms"
)

// The defaults and bounds of [Config].
const (
	DefaultBody     = 1024
	DefaultMessages = 20_000
	QuickMessages   = 2000
	// Repetitions of a full run, and at most of a quick one.
	DefaultRepetitions = 5
	QuickRepetitions   = 3

	minMessages = 100
	maxMessages = 1_000_000
	maxBody     = 1 << 20
	maxRepeats  = 50

	// quickBudget is when a quick run measures nothing more once each figure has a repetition:
	// what is left of 50 s is for the figure that runs and for cleaning up.
	quickBudget = 40 * time.Second
)

// Workloads are the names that Config.Only takes, in the order of the run.
func Workloads() []string {
	return []string{"naive", "publish", "batch", "tx", "latency", "drain", "growth", "consume", "consume-inbox"}
}

// Config says what to measure and where. The zero value of a field but Broker means its
// default.
type Config struct {
	// Store is mysql, postgres or sqlite for the local server or a temporary file, or a DSN:
	// mysql://user:password@host:3306/, postgres://..., sqlite:PATH. Its user must be allowed
	// to create databases; a database in it is not touched. Defaults to mysql.
	Store string
	// Broker is where to publish. Its user must be allowed to declare an exchange and a
	// queue. Channels, Window and the like are the product's.
	Broker confirms.Config
	// Queue is the queue's type, quorum or classic. Defaults to quorum.
	Queue string
	// Body is the size of a message's body in bytes, 16 to 1 MiB. Defaults to 1024.
	Body int
	// Messages is the size of one publish run with 64 callers and more, 100 to 1,000,000;
	// others are derived from it. Defaults to 20,000, with Quick to 2000.
	Messages int
	// Repetitions is how often each figure is taken, 1 to 50. Defaults to 5. With Quick at most 3,
	// fewer on a slow machine.
	Repetitions int
	// Quick keeps the run under 50 s: fewer rows, no million, fewer repetitions.
	Quick bool
	// Only restricts the run to some workloads. Defaults to all.
	Only []string
	// Callers are those of publish and naive, each 1 to 10,000. Defaults to 1, 16, 64, 256 and 1024.
	Callers []int
	// ProfileDir, if set, is an existing folder that gets CPU, heap, block and mutex profiles
	// of each of the product's workloads.
	ProfileDir string
	// Progress gets a line for every step. Nil discards.
	Progress io.Writer
}

func (c Config) withDefaults() Config {
	setDefault(&c.Queue, "quorum")
	setDefault(&c.Body, DefaultBody)
	if c.Quick {
		setDefault(&c.Messages, QuickMessages)
		setDefault(&c.Repetitions, QuickRepetitions)
	}
	setDefault(&c.Messages, DefaultMessages)
	setDefault(&c.Repetitions, DefaultRepetitions)
	if len(c.Only) == 0 {
		c.Only = Workloads()
	}
	if len(c.Callers) == 0 {
		c.Callers = []int{1, 16, 64, 256, 1024}
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports the first field out of bounds, by name, value and bound. It contacts
// nobody.
func (c Config) Validate() error {
	c = c.withDefaults()
	if _, err := parseServer(c.Store); err != nil {
		return err
	}
	switch {
	case c.Queue != "quorum" && c.Queue != "classic":
		return fmt.Errorf("queue %q must be quorum or classic", c.Queue)
	case c.Body < minBody || c.Body > maxBody:
		return fmt.Errorf("body %d must be %d to %d", c.Body, minBody, maxBody)
	case c.Messages < minMessages || c.Messages > maxMessages:
		return fmt.Errorf("messages %d must be %d to %d", c.Messages, minMessages, maxMessages)
	case c.Repetitions < 1 || c.Repetitions > maxRepeats:
		return fmt.Errorf("repetitions %d must be 1 to %d", c.Repetitions, maxRepeats)
	case len(c.Broker.Addrs) == 0 || c.Broker.Credentials == nil:
		return errors.New("broker has no address or credentials")
	}
	for _, name := range c.Only {
		if !slices.Contains(Workloads(), name) {
			return fmt.Errorf("workload %q must be one of %s", name, strings.Join(Workloads(), ", "))
		}
	}
	for _, n := range c.Callers {
		if n < 1 || n > 10_000 {
			return fmt.Errorf("callers %d must be 1 to 10000", n)
		}
	}
	return nil
}

func (c Config) has(workload string) bool { return slices.Contains(c.Only, workload) }

// rawSize is the messages of one raw loop.
func (c Config) rawSize() int { return max(c.Messages/2, 100) }

// publishSize keeps runs of few callers from taking ten times as long as others, and gives
// many callers enough to get going.
func (c Config) publishSize(callers int) int {
	switch {
	case callers < 8:
		return max(c.Messages/10, 50)
	case callers < 32:
		return max(c.Messages/4, 50)
	case callers > 512:
		return max(2*c.Messages, 2*callers)
	}
	return c.Messages
}

func (c Config) naiveSize(callers int) int {
	if callers < 8 {
		return max(c.Messages/20, 50)
	}
	return max(c.Messages/5, callers)
}

func (c Config) batchSize() int   { return max(c.Messages, batchCallers*batchRows) }
func (c Config) txSize() int      { return max(c.Messages/2, txCallers) }
func (c Config) latencySize() int { return max(c.Messages/10, 50) }

// drainSize is 100,000 rows by default.
func (c Config) drainSize() int {
	if c.Quick {
		return 3 * c.Messages
	}
	return 5 * c.Messages
}

// backlogs are the numbers of rows that wait while publish and drain are measured again:
// 100,000 and 1,000,000 by default.
func (c Config) backlogs() []int {
	if c.Quick {
		return []int{10 * c.Messages}
	}
	return []int{5 * c.Messages, 50 * c.Messages}
}
