package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Publish stores m and sends it. It returns as soon as the row is committed: a nil error
// means that the message is the library's from then on, whatever becomes of ctx, the
// broker or this process. The Receipt tells the outcome of the first send; most callers
// need not wait for it.
//
// It blocks for one INSERT that it shares with concurrent callers, and never for the
// broker: with the broker down, blocked or busy the receipt is deferred and a
// compensator sends the row. ctx bounds the caller's wait for the INSERT and nothing
// else.
//
// Errors, by errors.Is:
//   - [model.ErrInvalid]: nothing stored; correct the message.
//   - [model.ErrNotStored]: certain; repeat when the cause is gone.
//   - [model.ErrStoreUnknown]: maybe stored (ctx ended or the connection broke while the
//     INSERT ran). Repeat with the id in the [*model.StoreError]: still the same message,
//     though it may arrive twice if the first row was sent and deleted meanwhile.
//   - [model.ErrConflict]: the id is stored with other content.
//   - [model.ErrDead]: the id is stored with this content and is DEAD; replay it.
//   - [model.ErrClosed]: the publisher was closed; nothing stored.
//
// A repeat with an id that is stored with equal content is success: the receipt is
// deferred, its text says stored before, and nothing is sent twice.
//
// Inside a transaction it is refused with [ErrInTx], where ctx knows of it: [Tx.Publish] is
// meant.
func (p *Publisher) Publish(ctx context.Context, m model.Message) (*Receipt, error) {
	if err := p.outside(ctx, "Publisher.Publish"); err != nil {
		return nil, err
	}
	envelopes, err := p.publish(ctx, []model.Message{m})
	if err != nil {
		return nil, err
	}
	return &envelopes[0].receipt, nil
}

// PublishBatch is Publish for several messages as one unit: all are stored or none. The
// receipts are in the order of the messages. An invalid message fails the batch, and
// [model.InvalidError.Index] says which; two messages with one id are invalid. Very
// large batches are stored by several INSERTs in one transaction. An empty batch does
// nothing.
func (p *Publisher) PublishBatch(ctx context.Context, ms []model.Message) ([]*Receipt, error) {
	if err := p.outside(ctx, "Publisher.PublishBatch"); err != nil {
		return nil, err
	}
	if len(ms) == 0 {
		return nil, nil
	}
	envelopes, err := p.publish(ctx, ms)
	if err != nil {
		return nil, err
	}
	receipts := make([]*Receipt, len(envelopes))
	for i, f := range envelopes {
		receipts[i] = &f.receipt
	}
	return receipts, nil
}

// outside refuses a call that is not usable, or inside a transaction that ctx knows.
func (p *Publisher) outside(ctx context.Context, call string) error {
	if err := p.usable(); err != nil {
		return err
	}
	return refuseInTx(ctx, call, "call Publish of its Tx", 2)
}

func (p *Publisher) publish(ctx context.Context, ms []model.Message) ([]*envelope, error) {
	if err := p.enter(1); err != nil {
		return nil, err
	}
	defer p.leave()
	envelopes, err := p.prepare(ms)
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}

	// Who sends is decided before the INSERT: a row that this process will send is stored
	// under its lease, any other is due at once and this process never sends it. A row
	// can so never be stuck between two who each think that it is the other's.
	reserved := p.reserve(envelopes)
	drafts := make([]model.Draft, len(envelopes))
	for i, f := range envelopes {
		drafts[i] = p.draft(f, f.reserved)
	}
	since := time.Now() // before the INSERT: the lease cannot have begun earlier
	stored, err := p.cfg.Store.Insert(ctx, drafts)
	if err == nil {
		err = refusals(drafts, stored)
	}
	p.cfg.observer.Published(time.Since(since), err)
	if err != nil {
		reserved.release(envelopes)
		return nil, fmt.Errorf("publisher: %w", err)
	}
	for i, f := range envelopes {
		if f.reserved && stored[i] == model.StoredNew {
			f.send(since)
			continue
		}
		if f.reserved {
			reserved.releaseOne(f)
		}
		f.before = stored[i] == model.StoredBefore
		f.deferNow()
	}
	return envelopes, nil
}

// prepare validates all messages before anything is stored.
func (p *Publisher) prepare(ms []model.Message) ([]*envelope, error) {
	now := time.Now()
	limits := p.limits
	limits.FrameMax = p.cfg.Sender.FrameMax()
	envelopes := make([]*envelope, len(ms))
	var seen map[string]int
	if len(ms) > 1 {
		seen = make(map[string]int, len(ms))
	}
	for i := range ms {
		f, err := p.newEnvelope(ms[i], now, limits)
		if err == nil && seen != nil {
			if first, dup := seen[f.msg.ID]; dup {
				reason := fmt.Sprintf("%s is also message %d's", f.msg.ID, first)
				err = &model.InvalidError{Field: "id", Reason: reason}
			}
			seen[f.msg.ID] = i
		}
		if err != nil {
			var inv *model.InvalidError
			if len(ms) > 1 && errors.As(err, &inv) {
				inv.Index = i
			}
			return nil, err
		}
		envelopes[i] = f
	}
	return envelopes, nil
}

func (p *Publisher) draft(f *envelope, sends bool) model.Draft {
	d := model.Draft{TransMessage: f.row}
	if sends {
		d.Delay = p.cfg.Lease
		d.ClaimedBy = p.cfg.Instance
	}
	return d
}

// refusals turns the rows that could not be stored into an error.
func refusals(drafts []model.Draft, stored []model.Stored) error {
	var dead, other []string
	for i, s := range stored {
		switch s {
		case model.StoredDead:
			dead = append(dead, drafts[i].ID)
		case model.StoredOther:
			other = append(other, drafts[i].ID)
		case model.StoredNew, model.StoredBefore:
		}
	}
	var conflict, isDead error
	if len(other) > 0 {
		conflict = &model.StoreError{Kind: model.ErrConflict, IDs: other}
	}
	if len(dead) > 0 {
		isDead = &model.StoreError{Kind: model.ErrDead, IDs: dead}
	}
	if conflict == nil || isDead == nil {
		return cmp.Or(conflict, isDead)
	}
	return errors.Join(conflict, isDead)
}

// reserve takes room at the sender and the batcher for every envelope that may be sent
// now: all of them, or none. What the broker is known to refuse may not.
func (p *Publisher) reserve(envelopes []*envelope) reservation {
	r := reservation{p: p}
	n, bytes := 0, int64(0)
	for _, f := range envelopes {
		if !f.timed() {
			f.why, f.waits = p.cfg.Sender.Waits(f.msg.Exchange, f.msg.RoutingKey)
		}
		if f.sendable() {
			n++
			bytes += int64(len(f.msg.Body))
		}
	}
	if n == 0 {
		return r
	}
	// Sends without an answer count too: each becomes a result, and a slow DELETE would
	// otherwise meet all of them above the bound.
	if !p.batcher.Accepts(int(p.sending.Add(int64(n)))) || !p.cfg.Sender.TryReserve(n, bytes) {
		p.sending.Add(-int64(n))
		return r
	}
	for _, f := range envelopes {
		f.reserved = f.sendable()
	}
	return r
}

// reservation gives back what reserve took.
type reservation struct{ p *Publisher }

func (r reservation) releaseOne(f *envelope) {
	f.reserved = false
	r.p.sending.Add(-1)
	r.p.cfg.Sender.Release(1, int64(len(f.msg.Body)))
}

func (r reservation) release(envelopes []*envelope) {
	for _, f := range envelopes {
		if f.reserved {
			r.releaseOne(f)
		}
	}
}
