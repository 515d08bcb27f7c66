package compensator

import (
	"context"
	"time"

	"github.com/transmsg/transmsg/model"
)

// claimLetters takes dead letters whose alert is owed.
func (o *rowAlerts) claimLetters(ctx context.Context, c model.DeadClaim) ([]rowAlert, error) {
	list, err := o.cfg.Letters.ClaimLetters(ctx, c)
	if err != nil {
		o.cfg.observer.StoreError("claim-letters", err)
	}
	out := make([]rowAlert, len(list))
	for i := range list {
		out[i] = o.letterAlert(&list[i])
	}
	return out, err
}

// letterAlert is the alert of one dead letter. Its queue is told as a routing key: a replay goes to it by that key, and
// many queues with one cause fold as keys do.
func (o *rowAlerts) letterAlert(l *model.DeadLetter) rowAlert {
	kind := model.AlertLetter
	if l.Status == model.LetterParked {
		kind = model.AlertParked
	}
	at := time.UnixMilli(l.CreatedAt)
	return rowAlert{key: model.AlertKey{ID: l.ID, Kind: kind, Epoch: l.Epoch}, alert: Alert{
		Kind: kind, Service: l.Service, RoutingKey: model.Readable(l.Queue), Code: l.Code(), Text: l.Text, Count: 1,
		First: at, Last: at, Sample: model.AlertSample{ID: l.ID, Key: l.Key, Attempts: l.Attempts},
		Instance: o.cfg.Instance,
	}}
}

// countLetters fills in how many dead letters there are in all. Without an answer the alert goes without.
func (c *Config) countLetters(ctx context.Context, a *Alert, status model.LetterStatus) {
	if c.Letters == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	groups, err := c.Letters.LetterGroups(ctx, model.LetterFilter{
		Service: a.Service, Status: status, Queue: a.RoutingKey, Cause: string(a.Code), Limit: totalGroups,
	})
	if err != nil {
		c.observer.StoreError("letter-groups", err)
		return
	}
	for i := range groups {
		addTotal(a, groups[i].Rows, groups[i].First)
	}
}
