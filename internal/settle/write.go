package settle

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// writeDeletes deletes one batch and returns the rows that somebody holds locked. Ids
// are sorted: two batchers that lock rows in the same order cannot deadlock.
func (b *Batcher) writeDeletes(ctx context.Context, keys []model.RowKey) ([]model.RowKey, error) {
	slices.SortFunc(keys, func(x, y model.RowKey) int { return cmp.Compare(x.ID, y.ID) })
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	n, err := b.cfg.Store.Delete(ctx, keys)
	if err == nil {
		if n == len(keys) {
			return nil, nil
		}
		return nil, b.lateAcks(ctx, keys)
	}
	b.failed(OpDelete, len(keys), err)
	return busy(keys, err, func(k model.RowKey) string { return k.ID }), err
}

// lateAcks looks at acked rows of which some were not there in the epoch that was sent. With
// an error the whole batch is written again, and finds none of its rows.
func (b *Batcher) lateAcks(ctx context.Context, keys []model.RowKey) error {
	late, err := b.cfg.Store.LateAcks(ctx, keys, b.cfg.Instance)
	if err != nil {
		b.failed(OpLateAck, len(keys), err)
		return err
	}
	for _, k := range late {
		b.log.Warn("a message was acked after it had been edited: consumers may get the old one and the edited one",
			"id", k.ID, "epoch", k.Epoch)
	}
	return nil
}

// writeSettles updates one batch and inserts again what was found gone. It returns the
// rows that somebody holds locked, and those that could not be inserted.
func (b *Batcher) writeSettles(ctx context.Context, batch []*Result) (left []*Result, err error) {
	slices.SortFunc(batch, func(x, y *Result) int { return cmp.Compare(x.Row.ID, y.Row.ID) })
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	if left, err = b.settle(ctx, batch); err != nil && left == nil {
		return nil, err
	}
	if gone, restoreErr := b.restore(ctx, batch); restoreErr != nil {
		left, err = append(left, gone...), errors.Join(err, restoreErr)
	}
	for _, r := range batch {
		if slices.Contains(left, r) {
			continue
		}
		b.held.Add(-int64(r.Row.Size))
		if r.Outcome.Kind != model.Deferred { // that is no failed send
			b.failures.add(r, r.decision, r.met)
		}
		if b.cfg.OnSettled != nil {
			b.cfg.OnSettled(r, r.decision, r.met)
		}
	}
	return left, err
}

// settle writes those of the batch that are not yet written. With an error it returns
// those that are left, or nil for all.
func (b *Batcher) settle(ctx context.Context, batch []*Result) ([]*Result, error) {
	todo := make([]*Result, 0, len(batch))
	for _, r := range batch {
		if r.met == 0 {
			todo = append(todo, r)
		}
	}
	if len(todo) == 0 {
		return nil, nil
	}
	settlements := make([]model.Settlement, len(todo))
	for i, r := range todo {
		settlements[i] = b.settlement(r)
	}
	met, err := b.cfg.Store.Settle(ctx, settlements)
	var left []*Result
	if err != nil {
		b.failed(OpSettle, len(todo), err)
		if left = busy(todo, err, func(r *Result) string { return r.Row.ID }); left == nil {
			return nil, err
		}
	}
	for i, r := range todo {
		r.met = met[i] // zero for those that are left
	}
	return left, err
}

func (b *Batcher) settlement(r *Result) model.Settlement {
	return model.Settlement{
		ID: r.Row.ID, Epoch: r.Row.Epoch, Version: r.Row.Version,
		Status: r.decision.Status, Delay: r.decision.Delay,
		AttemptsDelta: r.decision.AttemptsDelta, FailuresDelta: r.decision.FailuresDelta,
		ClosesDelta: r.Closes, Exhausted: r.decision.Exhausted, Outcome: r.Outcome, Instance: b.cfg.Instance,
	}
}

// restore inserts rows again that are gone although the broker answered that it does
// not have the message. A row gone under an unknown or deferred outcome was deleted by
// somebody who knew more (an ack elsewhere, an operator), and stays gone. With an error
// it returns those it was to insert.
func (b *Batcher) restore(ctx context.Context, batch []*Result) ([]*Result, error) {
	var gone []*Result
	var rows []model.TransMessage
	var settlements []model.Settlement
	for _, r := range batch {
		if r.met == model.SettledGone && r.decision.AttemptsDelta > 0 {
			gone = append(gone, r)
			rows = append(rows, *r.Row)
			settlements = append(settlements, b.settlement(r))
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	restored, err := b.cfg.Store.Restore(ctx, rows, settlements)
	if err != nil {
		b.failed(OpRestore, len(rows), err)
		return gone, err
	}
	for i, ok := range restored {
		b.log.Warn("row was gone when its message came back", "id", rows[i].ID,
			"code", string(settlements[i].Outcome.Code), "restored", ok)
		if ok && b.cfg.OnRestored != nil {
			b.cfg.OnRestored(&rows[i])
		}
	}
	return nil, nil
}

func (b *Batcher) failed(op string, rows int, err error) {
	b.failures.addWrite(op, rows, err)
	if b.cfg.OnError != nil {
		b.cfg.OnError(op, err)
	}
}

// busy returns the items whose rows a [model.BusyError] names, or nil when err is
// something else and so concerns them all.
func busy[T any](items []T, err error, id func(T) string) []T {
	var locked *model.BusyError
	if !errors.As(err, &locked) {
		return nil
	}
	var left []T
	for _, item := range items {
		if slices.Contains(locked.IDs, id(item)) {
			left = append(left, item)
		}
	}
	return left
}
