// Package confirms sends messages to RabbitMQ over a supervised connection in
// confirm mode and reports exactly one [model.Outcome] for each: acked, nacked,
// returned, refused, unknown or deferred.
//
// A [Sender] owns one connection and renews it for ever, each time with new
// channels. It opens a second one for suspects: messages that may be why the broker
// closed a channel or connection, and that go alone. It never tells "acked" of a
// message that the broker returned, never takes the end of a channel for a nack, and
// never waits without a deadline.
//
// What it does not do: it stores nothing and repeats nothing (the publisher and
// the compensator do, by the row), it declares no topology, and it consumes
// nothing.
//
// The parts, from the outside in: sender.go is the API and its bounds;
// supervise.go dials again and again, isolate.go when there are suspects; session.go
// is one connection; channel.go is one channel's sending half and track.go its
// confirming half; outcome.go says what a confirm or a close means; exchanges.go asks
// for exchanges before their first use; internal/broker has
// the dial and the socket under the client library.
package confirms
