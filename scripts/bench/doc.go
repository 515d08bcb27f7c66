// Command bench measures transmsg and what users would otherwise pick at the same work,
// in turn, on the same servers: publish, where each message must be stored and confirmed,
// and drain of a full table. It is a module of its own, so that the peers are no
// dependencies of the library.
//
// The peers, each with the settings that make it fastest:
//
//   - Watermill's SQL publisher with its forwarder and AMQP publisher, confirms on;
//   - gorm, one message at a time: create, publish, wait for the confirm, delete;
//   - a worker with 4 or 8 channels and one confirm in flight on each.
//
// Every run of every contestant is checked: the queue must hold each message once.
package main
