// Package collector moves dead letters from dead-letter queues into the store, where people see them, and from where
// they are sent back.
//
// A letter is acked after the commit that stores it. A process that ends in between stores it again, which the store
// notices, for letters whose rejection or message has an id. Any number of collectors may run on one queue. Nothing is
// validated: what the broker delivers is kept byte for byte.
//
// What the database does not take (it is too large for a statement) goes as a confirmed copy to a queue of its own, and
// what is behind it is collected. While the database is away the letters stay in their queue.
package collector
