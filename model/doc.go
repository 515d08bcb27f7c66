// Package model is the vocabulary that every other package of transmsg speaks:
// the message a service publishes, the trans message that is stored for it, the
// outcomes a send can have and the policy that decides what follows from them.
//
// It does no I/O, starts nothing and imports neither the AMQP client nor a
// database driver, so a service can build and validate messages, and a tool can
// read stored rows, without linking either.
//
// The parts:
//
//   - [Message] and [Properties]: what a caller hands to Publish.
//   - [Normalize] and [Check]: the one validator. What passes is storable on every
//     store and sendable to every broker; what does not is an [InvalidError] and
//     nothing is stored.
//   - [TransMessage]: the stored row, with its [Status].
//   - [EncodeProperties] and [DecodeProperties]: the versioned, type-preserving
//     codec of the row's properties column.
//   - [Outcome]: what became of one send. [Policy]: backoff and the limits of trying.
//   - [Draft], [Claim], [Settlement]: what the store is asked to write.
//   - the sentinel errors, each saying what its caller should do.
package model
