// Command chaos runs the product on private servers while a plan of faults, chosen by a
// seed, breaks everything around it, and then compares what callers were told with what a
// consumer received.
//
//	publishers ──┐                          ┌── consumer (this process)
//	 (processes) ├─ fault proxy ─ RabbitMQ ─┘
//	compensators ┘        MariaDB, PostgreSQL or SQLite; Redis
//
// Three records make the verdict, none of them the product's own: the ledger of every
// publisher (an intent, fsynced before the call, and what the call returned), the send log
// of every process (each send and its outcome, written by a wrapper around the sender), and
// the consumer's deliveries.
//
// With --consumers the quorum queue is read by processes of package consumer instead. Their
// record (each handler call and its answer) takes the place of the deliveries, and a table
// without a unique key has the effects: one for each message that was handled. Each delivery
// beyond a message's first must be the copy of a failed attempt, or follow the end of a
// consumer or of its connection; nothing may be a dead letter.
//
// A call that returned nil is OK: its messages must be delivered, or be READY or DEAD in
// the table at the end; otherwise they are lost. A call with a certain error, or rolled
// back, must not be delivered; a delivery of such a message, of one never intended or of a
// changed body is a phantom. Any other call is ambiguous and counts as neither. A repeat
// needs a cause that README.md names (see repeats.go); one without is unexplained. Every
// fault proves that it bit.
//
// Run it by scripts/chaos.sh.
package main
