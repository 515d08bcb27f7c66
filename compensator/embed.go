package compensator

import (
	"context"
	"fmt"
	"slices"

	"github.com/transmsg/transmsg/internal/embed"
	"github.com/transmsg/transmsg/model"
)

// Embed makes the compensator of one service in the service's own process and returns its run;
// give c as Compensate to transmsg.Open, which calls it. Store, Sender and Services of c must
// be empty: they are the service's. So are Policy and Logger where c has none. The run sends
// what is due until ctx ends, then drains for at most Config.DrainTimeout and until hard ends,
// and returns what [Compensator.Run] does.
func (c Config) Embed(p embed.Parts) (run func(ctx, hard context.Context) error, err error) {
	if c.Store != nil || c.Sender != nil || len(c.Services) > 0 {
		return nil, fmt.Errorf("compensator: embed: config: Store, Sender and Services must be empty: "+
			"they are those of service %q", p.Service)
	}
	store, ok := p.Store.(Store)
	if !ok {
		return nil, fmt.Errorf("compensator: embed: the store %T has no claims, which a compensator needs", p.Store)
	}
	c.Store, c.Sender, c.Services = store, p.Sender, []string{p.Service}
	if c.Policy == (model.Policy{}) {
		c.Policy = p.Policy
	}
	if c.Logger == nil {
		c.Logger = p.Logger
	}
	if m, ok := p.Metrics.(interface{ CompensatorObserver() Observer }); ok {
		c.Observers = append(slices.Clone(c.Observers), m.CompensatorObserver())
	}
	made, err := New(c)
	if err != nil {
		return nil, err
	}
	return made.run, nil
}
