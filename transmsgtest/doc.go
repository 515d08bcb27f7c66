// Package transmsgtest lets a service test its own publishing without servers: a real
// [publisher.Publisher] on a SQLite file of the test's own, with a scripted broker in place of
// the AMQP engine.
//
//	env := transmsgtest.New(t)
//	env.Broker.Return("orders", "nobody.listens")      // optional: script the broker
//	err := placeOrder(ctx, env.DB, env.Publisher, order) // the code under test
//	msg := env.RequireSent(t, "orders", "order.placed")
//
// Everything up to the broker is the real thing: validation, the stored row, the
// transaction, the read-back after the commit, the settling. What it cannot show is the
// broker's own behaviour, so keep one test against a real one.
//
// A call past the open transaction (the publisher, the *sql.DB or the outer *gorm.DB where the
// transaction's own handle is meant, a second transaction) fails the test at once, whatever
// context it has, and its error is [ErrPastTx].
package transmsgtest
