package compensator

import (
	"context"
	"time"

	"github.com/transmsg/transmsg/internal/commandline"
	"github.com/transmsg/transmsg/model"
)

// totalTimeout bounds the counting of all rows of an alert: the alert is worth more than the
// number.
const totalTimeout = 2 * time.Second

// totalGroups is the most groups that are summed up.
const totalGroups = 10_000

// grouping is a Store that counts rows by group; gormstore's does.
type grouping interface {
	Groups(context.Context, model.Filter) ([]model.Group, error)
}

// complete adds to an alert what a person needs who sees nothing else.
func (c *Config) complete(ctx context.Context, a *Alert) {
	a.Environment, a.Meaning = c.Environment, a.Code.Meaning()
	a.Command, a.Resend = c.pasted(commandline.List(a)), c.pasted(commandline.Resend(a))
	switch a.Kind {
	case model.AlertDead:
		c.count(ctx, a, model.Filter{Status: model.Dead})
	case model.AlertExhausted:
		c.count(ctx, a, model.Filter{Status: model.Ready, Exhausted: true})
	case model.AlertLetter:
		c.countLetters(ctx, a, model.LetterOpen)
	case model.AlertParked:
		c.countLetters(ctx, a, model.LetterParked)
	default: // nobody can tell from the table
	}
}

// pasted names the settings file of the operator's machine.
func (c *Config) pasted(line string) string {
	if line == "" || c.OperatorConfig == "" {
		return line
	}
	return line + " --config " + commandline.Quoted(c.OperatorConfig)
}

// count fills in how many rows there are in all. Without an answer the alert goes without.
func (c *Config) count(ctx context.Context, a *Alert, f model.Filter) {
	store, ok := c.Store.(grouping)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	f.Service, f.Exchange, f.RoutingKey, f.Code = a.Service, a.Exchange, a.RoutingKey, a.Code
	f.Limit = totalGroups
	groups, err := store.Groups(ctx, f)
	if err != nil {
		c.observer.StoreError("groups", err)
		return
	}
	for i := range groups {
		addTotal(a, groups[i].Rows, groups[i].First)
	}
}

// addTotal counts a group's rows, the first of which is there since then.
func addTotal(a *Alert, rows, first int64) {
	a.Total += rows
	if at := time.UnixMilli(first); a.Oldest.IsZero() || at.Before(a.Oldest) {
		a.Oldest = at
	}
}
