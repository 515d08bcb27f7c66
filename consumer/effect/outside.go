package effect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// maxIdempotencyKey is what payment providers take.
const maxIdempotencyKey = 100

// IdempotencyKey is what a provider is told, so that a second call has no second effect there: the consumer's name
// and the message's id or key, such as "payments/0192...". One that a provider may refuse, longer than 100 bytes or
// not plain ASCII, becomes a UUID made of both. The name is the oldest of Formerly, where there is one: calls that
// went out under that name must meet the same key.
func (o *Once) IdempotencyKey(m *consumer.Message) (string, error) {
	r, err := o.record(m)
	if err != nil {
		return "", err
	}
	return idempotencyKey(&r), nil
}

func idempotencyKey(r *model.InboxRecord) string {
	name := r.Consumer
	if len(r.Formerly) > 0 {
		name = r.Formerly[len(r.Formerly)-1]
	}
	key := name + "/" + string(r.Key)
	if len(key) > maxIdempotencyKey {
		return model.StableID("effect", name, string(r.Key))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return model.StableID("effect", name, string(r.Key))
		}
	}
	return key
}

// ErrInTx says that a call outside of the database was about to be made while a transaction is open: it would hold
// locks for as long as the provider takes, and could not be undone.
var ErrInTx = errors.New("effect: a transaction is open in this context: make the call before it, by CallThenTx")

// Call has an effect outside of the database and returns what is to be recorded. key is the idempotency key; the
// provider must be told it. It may be called again for the same message, with the same key: after a crash, or where
// the transaction that records the result fails.
type Call[R any] func(ctx context.Context, m *consumer.Message, key string) (R, error)

// CallThenTx makes a handler for an effect outside of the database, such as a charge at a payment provider: call runs
// first and without a transaction; then fn records its result in one, together with the inbox record and with what it
// publishes. A message whose record exists is skipped without a call.
func CallThenTx[R any](
	o *Once, db *sql.DB, opts *sql.TxOptions, call Call[R],
	fn func(ctx context.Context, tx *sql.Tx, out *publisher.Tx, m *consumer.Message, result R) error,
) consumer.Handler {
	return func(ctx context.Context, m *consumer.Message) error {
		result, err := callOnce(ctx, o, m, call)
		if err != nil {
			return err
		}
		return o.InTx(db, opts, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx, m *consumer.Message) error {
			return fn(ctx, tx, out, m, result)
		})(ctx, m)
	}
}

// callOnce calls unless the record exists. The look only spares a call: the record that is written later decides.
func callOnce[R any](ctx context.Context, o *Once, m *consumer.Message, call Call[R]) (result R, err error) {
	if publisher.TxFrom(ctx) != nil {
		return result, ErrInTx
	}
	r, err := o.record(m)
	if err != nil { // without a key no provider can tell a repeat
		return result, consumer.Permanent(err)
	}
	done, err := o.cfg.Store.Recorded(ctx, r)
	switch {
	case err != nil && ctx.Err() != nil:
		return result, err
	case err != nil:
		return result, consumer.Unavailable(fmt.Errorf("effect: look up the record: %w", err))
	case done:
		return result, consumer.Skipped("done")
	}
	return call(ctx, m, idempotencyKey(&r))
}
