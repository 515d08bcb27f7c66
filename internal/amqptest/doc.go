// Package amqptest gives tests and acceptance checks real RabbitMQ brokers.
//
// Two kinds: the shared broker that runs on the machine, on which every test
// has a virtual host of its own ([VHost]), and a private node ([StartNode],
// [NewNode]) that may be stopped, killed, alarmed and configured. Nothing that
// disturbs others (stop, kill, alarm, closing connections) is ever done to the
// shared broker.
//
// [Client] declares topology and collects messages on either.
//
// Without a broker tests fail and name the next step; they are never skipped.
package amqptest
