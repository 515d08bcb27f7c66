// Package effect gives each message one effect, however often it is delivered.
//
// A handler gets an open transaction. The first statement in it writes an inbox record: the consumer's name and the
// message's id. What the handler does, the record, and the messages that it publishes through its [publisher.Tx] commit
// together. A second delivery finds the record and is skipped.
//
//	once, err := effect.New(effect.Config{Consumer: "payments", Store: store, Publisher: pub})
//	queue.Handler = once.InTx(db, nil,
//		func(ctx context.Context, tx *sql.Tx, out *publisher.Tx, m *consumer.Message) error {
//			// the effect, by tx; messages, by out
//		})
//	config.Redeliveries = once
//
// Package gormeffect has the form for gorm. Effects outside of the database have forms of their own: [CallThenTx]
// calls, and then records the result in a transaction; [Outside] has no database and keeps its record elsewhere, for
// example on Redis (package redisrecord). Both hand the caller's function an idempotency key, and call it outside of
// any transaction.
//
// What an error means, the forms tell the consumer by themselves: a deadlock, a lock that was not free in time or a
// serialization failure is [consumer.Busy], since it was rolled back; a database that is away is
// [consumer.Unavailable]; a commit whose result is not known is given back, and the record decides at the next
// delivery. A handler returns the errors of its statements, wrapped or not, and does not go on after them.
//
// What this package does not do: it cannot make an effect single that a handler causes outside of its transaction
// without an idempotency key, and it does not delete records: the compensator does, by --inbox-retention.
package effect
