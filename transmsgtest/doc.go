// Package transmsgtest lets a service test its own publishing without servers: a real
// [publisher.Publisher] on in-memory SQLite, with a scripted broker in place of the AMQP
// engine.
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
// The database has one connection: inside a transaction use only the transaction's
// handle, or the test waits for itself.
package transmsgtest
