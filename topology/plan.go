package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/transmsg/transmsg/model"
)

// DeliveryLimit is the delivery limit that work queues and dead-letter queues get, by policy. The end of a process
// counts for all messages that it had taken, so that RabbitMQ 4's default of 20 gives up innocent ones. No limit at
// all is written -1 only from 4.0 on, and gives up at the first return before.
const DeliveryLimit = 1000

// Defaults of a topology file.
const (
	DefaultVHost       = "/"
	DefaultDeadLetters = "dead-letters" // exchange and queue
)

// Plan is what an operator wants in one virtual host: a topology file. The zero value is no plan; see [ParsePlan].
type Plan struct {
	// VHost is the virtual host. Defaults to "/".
	VHost string `yaml:"vhost"`
	// Routes say where publishers send to and which queue must get it. At least one.
	Routes []Route `yaml:"routes"`
	// Queues say more of work queues. Each queue of a route is a work queue, listed here or not.
	Queues []WorkQueue `yaml:"queues"`
	// DeadLetters are the exchange and the queue for what nobody can handle. Both default to "dead-letters".
	DeadLetters DeadLetters `yaml:"dead-letters"`
	// Users are the logins of the roles. The rights of a role without one are not declared and not checked.
	Users map[Role]Login `yaml:"users"`
}

// Route is a binding that must be there: what is sent to the exchange with a key like this reaches the queue.
type Route struct {
	Exchange string `yaml:"exchange"`
	// Type is the exchange's: topic, direct, fanout or headers. Defaults to topic; the same in all its routes.
	Type string `yaml:"type"`
	// Key is the binding's. Defaults to "#", all keys, for a topic exchange and to "" for others.
	Key *string `yaml:"key"`
	// Queue is the work queue. One with partitions is an exchange of this name, with the queues behind it.
	Queue string `yaml:"queue"`
}

// WorkQueue is a queue that consumers handle messages from.
type WorkQueue struct {
	Name string `yaml:"name"`
	// Retry are the steps of its ladder; see [model.Ladder]. Defaults to [model.DefaultSteps]; an empty list is none,
	// for consumers that retry in place.
	Retry *[]time.Duration `yaml:"retry"`
	// Partitions, where it is set, makes that many queues NAME.0, NAME.1, ... behind a consistent-hash exchange NAME,
	// each with a single active consumer. They keep order by key and have no ladder. 2 to 1024.
	Partitions int `yaml:"partitions"`
	// HashHeader is the header by which partitions are chosen. Defaults to the routing key.
	HashHeader string `yaml:"hash-header"`
}

// DeadLetters names the exchange and the queue of dead letters.
type DeadLetters struct {
	Exchange string `yaml:"exchange"`
	Queue    string `yaml:"queue"`
}

// Role is what a login is for.
type Role string

// The roles, and what their logins may do: nothing else, and none may declare.
const (
	// Publisher writes to the exchanges of the routes.
	Publisher Role = "publisher"
	// Consumer reads the work queues and writes to the dead-letter exchange and, for the ladders, to the default
	// exchange.
	Consumer Role = "consumer"
	// Compensator writes to the exchanges and to the default exchange, for messages stored for a queue by its name.
	Compensator Role = "compensator"
	// Collector reads the dead-letter queue.
	Collector Role = "collector"
)

var roles = []Role{Publisher, Consumer, Compensator, Collector}

// Login is a role's user.
type Login struct {
	Name string `yaml:"name"`
	// PasswordFile is a file whose first line is the password. Without it the user is made by others.
	PasswordFile string `yaml:"password-file"`
	// Password is what PasswordFile has, set by who reads it; it is in no file of ours.
	Password string `yaml:"-"`
}

// ParsePlan reads a topology file, fills in the defaults and checks it as a whole. The error names the field, its
// value and the bound; a key that is not known is one.
func ParsePlan(text []byte) (Plan, error) {
	var p Plan
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return Plan{}, fmt.Errorf("topology file: %w", err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return Plan{}, errors.New("topology file: there is more than one document")
	}
	p.complete()
	if err := p.check(); err != nil {
		return Plan{}, fmt.Errorf("topology file: %w", err)
	}
	return p, nil
}

// complete fills in the defaults, and lists every work queue.
func (p *Plan) complete() {
	orElse(&p.VHost, DefaultVHost)
	orElse(&p.DeadLetters.Exchange, DefaultDeadLetters)
	orElse(&p.DeadLetters.Queue, DefaultDeadLetters)
	for i := range p.Routes {
		r := &p.Routes[i]
		orElse(&r.Type, typeTopic)
		if r.Key == nil {
			all := ""
			if r.Type == typeTopic {
				all = "#"
			}
			r.Key = &all
		}
		if r.Queue != "" && !slices.ContainsFunc(p.Queues, func(q WorkQueue) bool { return q.Name == r.Queue }) {
			p.Queues = append(p.Queues, WorkQueue{Name: r.Queue})
		}
	}
	for i := range p.Queues {
		if q := &p.Queues[i]; q.Retry == nil {
			steps := model.DefaultSteps()
			if q.Partitions > 0 {
				steps = nil
			}
			q.Retry = &steps
		}
	}
}

func orElse(s *string, fallback string) {
	if *s == "" {
		*s = fallback
	}
}

// ladder is the ladder of a queue.
func (q WorkQueue) ladder() model.Ladder { return model.Ladder{Queue: q.Name, Steps: *q.Retry} }

// queues are the names of the queues that consumers read: the queue, or its partitions.
func (q WorkQueue) queues() []string {
	if q.Partitions == 0 {
		return []string{q.Name}
	}
	out := make([]string, q.Partitions)
	for i := range out {
		out[i] = fmt.Sprintf("%s.%d", q.Name, i)
	}
	return out
}

// exchanges are those that publishers write to, each once, in the order given.
func (p *Plan) exchanges() []string {
	var out []string
	for _, r := range p.Routes {
		if !slices.Contains(out, r.Exchange) {
			out = append(out, r.Exchange)
		}
	}
	return out
}

// workQueues are the names of all queues that consumers read, without steps and dead letters.
func (p *Plan) workQueues() []string {
	var out []string
	for _, q := range p.Queues {
		out = append(out, q.queues()...)
	}
	return out
}
