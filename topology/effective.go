package topology

import (
	"errors"
	"slices"
)

// The settings of queues that the rules ask for, without the x- of arguments.
const (
	setLength       = "max-length"
	setBytes        = "max-length-bytes"
	setAge          = "max-age"
	setOverflow     = "overflow"
	setTTL          = "message-ttl"
	setExpires      = "expires"
	setDeliveries   = "delivery-limit"
	setDeadExchange = "dead-letter-exchange"
	setDeadKey      = "dead-letter-routing-key"
	setDeadStrategy = "dead-letter-strategy"
	setAlternate    = "alternate-exchange"
)

const (
	dropHead         = "drop-head"
	rejectPublish    = "reject-publish"
	rejectPublishDLX = "reject-publish-dlx"
	atLeastOnce      = "at-least-once"
)

// smallest are the settings of which the broker takes the smaller where argument and policy give one.
var smallest = []string{
	setLength, setBytes, setTTL, setExpires, setDeliveries, "max-in-memory-length",
	"max-in-memory-bytes",
}

// queueSetting is a queue's setting in force, nil for none: of argument and policy the one that the broker takes.
func (b *Broker) queueSetting(q Queue, key string) any {
	argument := q.Arguments["x-"+key]
	kind := q.Type()
	policy := b.byPolicy(q.Name, key, "all", "queues", kind+"_queues")
	switch {
	case policy == nil:
		return argument
	case argument == nil:
		return policy
	case slices.Contains(smallest, key):
		return b.smaller(key, argument, policy)
	case key == setOverflow && kind == typeQuorum:
		return policy
	}
	return argument
}

// exchangeSetting is an exchange's setting in force, nil for none.
func (b *Broker) exchangeSetting(e Exchange, key string) any {
	if v, ok := e.Arguments[key]; ok {
		return v
	}
	return b.byPolicy(e.Name, key, "all", "exchanges")
}

// byPolicy is the value that policies give to an object. An operator's limit counts where it is the smaller one.
func (b *Broker) byPolicy(name, key string, targets ...string) any {
	mine := inForce(b.Policies, name, targets)[key]
	operator := inForce(b.OperatorPolicies, name, targets)[key]
	switch {
	case operator == nil:
		return mine
	case mine == nil || !slices.Contains(smallest, key):
		return operator
	}
	return b.smaller(key, mine, operator)
}

// smaller is the smaller of two numbers. From RabbitMQ 4 on a negative delivery limit means none, so that the other
// one counts.
func (b *Broker) smaller(key string, x, y any) any {
	m, mok := number(x)
	n, nok := number(y)
	switch {
	case !mok:
		return y
	case !nok:
		return x
	}
	unlimited := key == setDeliveries && b.major() >= 4 && (m < 0 || n < 0)
	if (m <= n) != unlimited {
		return x
	}
	return y
}

// inForce is the definition of the matching policy with the highest priority.
func inForce(policies []Policy, name string, targets []string) map[string]any {
	var best *Policy
	for i, p := range policies {
		if !slices.Contains(targets, p.applyTo()) || best != nil && p.Priority <= best.Priority {
			continue
		}
		if ok, err := matches(p.Pattern, name); err == nil && ok { // others are in the report: patternErrors
			best = &policies[i]
		}
	}
	if best == nil {
		return nil
	}
	return best.Definition
}

func (p Policy) applyTo() string {
	if p.ApplyTo == "" {
		return "all"
	}
	return p.ApplyTo
}

// patternErrors are the policies of which nobody here can tell to what they apply.
func (b *Broker) patternErrors() error {
	var errs []error
	for _, p := range slices.Concat(b.Policies, b.OperatorPolicies) {
		if _, err := matches(p.Pattern, ""); err != nil {
			errs = append(errs, errors.New("policy "+p.Name+": "+err.Error()))
		}
	}
	return errors.Join(errs...)
}
