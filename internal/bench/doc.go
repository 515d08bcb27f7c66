// Package bench measures transmsg on real servers against what these servers can do at
// most, which it measures in the same run.
//
// Two raw figures are taken between the product's: R_pub, confirmed publishing with the
// client library alone, and R_db, inserting and deleting the product's own rows with the
// driver alone; both loops stand in raw.go. The limit L = 1 / (1/R_pub + 1/R_db) is the
// cost of doing both one after the other, which is what a machine whose processors are
// shared by broker, database and service can do. Raw and product alternate: each
// repetition gives one ratio, and the figure is the median of the ratios.
//
// The naive workload is what services do without a library: insert, publish, wait for the
// confirm, delete.
//
// After every timed run, of whatever contestant, the queue is consumed: a message that is
// missing or there twice fails the whole run, and so does a row left in the table. Servers
// whose settings give up durability are refused.
//
// [Run] makes schemas, an exchange and queues with random names on the servers given and
// deletes them at the end. [Open] gives the same servers to programs that measure somebody
// else's product the same way.
package bench
