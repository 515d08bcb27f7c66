// Package publisher is the front door for services: it stores a message, sends it
// with publisher confirms and mandatory returns, and deletes or re-schedules the stored
// row by the outcome.
//
// What it promises: when Publish, PublishBatch or the commit of a transaction returns
// nil, the message is stored; from then on it reaches a queue, confirmed and routed, or
// it ends DEAD, kept for repair and reported by the compensator. What it does not:
// order, exactly-once (consumers remember message ids), and sending what a crash or an
// outage left behind; that is package compensator, of which at least one must run.
//
// A message's way, to be read in this order: [Publisher.Publish] (publish.go) validates
// it, decides who sends, stores the row and hands it to the sender; the sender reports
// one outcome to the envelope (envelope.go), which completes the [Receipt] and gives the
// result to the batcher of package internal/settle. [Tx] (tx.go) does the same around a
// transaction that belongs to the caller.
package publisher
