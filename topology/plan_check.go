package topology

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	maxPartitions = 1024
	maxName       = 200 // leaves room for what a ladder appends, within the 255 bytes of AMQP
)

// names is what the names of a plan are made of: they become regular expressions, and parts of other names.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func checkName(field, name string) error {
	switch {
	case !names.MatchString(name) || len(name) > maxName:
		return fmt.Errorf("%s %q must be letters, digits, '.', '_' and '-', at most %d", field, name, maxName)
	case strings.HasPrefix(name, "amq."):
		return fmt.Errorf("%s %q must not begin with amq., which is the broker's", field, name)
	}
	return nil
}

// check says what is wrong with a plan whose defaults are filled in, or nil.
func (p *Plan) check() error {
	if len(p.Routes) == 0 {
		return fmt.Errorf("routes: there is none; want at least one exchange and queue")
	}
	for _, step := range []func() error{p.checkRoutes, p.checkQueues, p.checkDeadLetters, p.checkUsers} {
		if err := step(); err != nil {
			return err
		}
	}
	return p.checkNames()
}

func (p *Plan) checkRoutes() error {
	kinds := map[string]string{}
	for i, r := range p.Routes {
		at := fmt.Sprintf("routes[%d]", i)
		if err := checkName(at+".exchange", r.Exchange); err != nil {
			return err
		}
		if err := checkName(at+".queue", r.Queue); err != nil {
			return err
		}
		if !slices.Contains([]string{typeTopic, typeDirect, typeFanout, "headers"}, r.Type) {
			return fmt.Errorf("%s.type %q must be topic, direct, fanout or headers", at, r.Type)
		}
		if before, ok := kinds[r.Exchange]; ok && before != r.Type {
			return fmt.Errorf("%s.type %q: exchange %s is %q in another route", at, r.Type, r.Exchange, before)
		}
		kinds[r.Exchange] = r.Type
		if len(*r.Key) > 255 {
			return fmt.Errorf("%s.key has %d bytes, the limit is 255", at, len(*r.Key))
		}
	}
	return nil
}

func (p *Plan) checkQueues() error {
	for i, q := range p.Queues {
		at := fmt.Sprintf("queues[%d]", i)
		if err := checkName(at+".name", q.Name); err != nil {
			return err
		}
		switch {
		case !slices.ContainsFunc(p.Routes, func(r Route) bool { return r.Queue == q.Name }):
			return fmt.Errorf("%s.name %s is in no route: nothing would reach it", at, q.Name)
		case q.Partitions == 1 || q.Partitions < 0 || q.Partitions > maxPartitions:
			return fmt.Errorf("%s.partitions %d must be 2 to %d", at, q.Partitions, maxPartitions)
		case q.Partitions > 0 && len(*q.Retry) > 0:
			return fmt.Errorf("%s.retry: a ladder breaks the order that %d partitions keep; retry in place", at,
				q.Partitions)
		case q.HashHeader != "" && q.Partitions == 0:
			return fmt.Errorf("%s.hash-header %s: only with partitions", at, q.HashHeader)
		}
		if err := q.ladder().Check(); err != nil {
			return fmt.Errorf("%s.retry: %w", at, err)
		}
	}
	return nil
}

func (p *Plan) checkDeadLetters() error {
	if err := checkName("dead-letters.exchange", p.DeadLetters.Exchange); err != nil {
		return err
	}
	return checkName("dead-letters.queue", p.DeadLetters.Queue)
}

func (p *Plan) checkUsers() error {
	seen := map[string]Role{}
	for role, login := range p.Users {
		if !slices.Contains(roles, role) {
			return fmt.Errorf("users.%s: the roles are publisher, consumer, compensator and collector", role)
		}
		if err := checkName(fmt.Sprintf("users.%s.name", role), login.Name); err != nil {
			return err
		}
		if other, ok := seen[login.Name]; ok {
			return fmt.Errorf("users: %s is %s and %s; each role has rights of its own", login.Name, min(role, other),
				max(role, other))
		}
		seen[login.Name] = role
	}
	return nil
}

// checkNames refuses two objects of one name.
func (p *Plan) checkNames() error {
	w := p.wanted()
	exchanges := make([]string, len(w.exchanges))
	for i, e := range w.exchanges {
		exchanges[i] = e.Name
	}
	queues := make([]string, len(w.queues))
	for i, q := range w.queues {
		queues[i] = q.Name
	}
	for kind, list := range map[string][]string{"exchange": exchanges, "queue": queues} {
		slices.Sort(list)
		for i := 1; i < len(list); i++ {
			if list[i] == list[i-1] {
				return fmt.Errorf("%s %s would be two: give one of them another name", kind, list[i])
			}
		}
	}
	return nil
}
