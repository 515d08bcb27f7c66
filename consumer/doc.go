// Package consumer handles the messages of queues: one handler call at a time for each message, retries that
// block nobody, and dead letters that are confirmed copies with their cause.
//
// A [Consumer] has a connection of its own and copies messages over another one, its [Sender]. What a handler
// answers decides what becomes of the message:
//
//	nil                 acked
//	an error            a copy goes to the next step of the queue's ladder (see model.Ladder), and the original is
//	                    acked when the copy is confirmed; after the last step the copy is a dead letter
//	Permanent(err)      a dead letter at once
//	Unavailable(err)    what the handler depends on is away: no attempt is counted, the queue pauses, one message
//	                    at a time tries again
//	Busy(err)           somebody else is at this very message: no attempt is counted, it is tried again later
//	Skipped(reason)     the effect was there already: acked, and counted as skipped
//	a panic             as an error
//
// Delivery is at least once. A crash between a copy's confirm and the ack of its original is one more copy; a
// connection that is lost under a handler is one more delivery. One effect for each message is the handler's own,
// with a record in the transaction of the effect.
//
// What ends the process takes no neighbour with it: a message that was delivered before is handled alone, over a
// channel with a prefetch of 1, and is a dead letter once that has been tried too often.
//
// What this package does not do: it declares no queue (the scripts do), it stores nothing, and it publishes nothing
// but the copies.
package consumer
