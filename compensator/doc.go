// Package compensator sends what is due. It is the third stage of a message's way: a
// row that the publishing process did not get confirmed, for whatever reason, is READY
// in the table, and a compensator claims it, sends it again and deletes it on its
// confirm, or marks it DEAD and tells somebody.
//
// A [Compensator] is embeddable: [New] checks the configuration and starts nothing,
// [Compensator.Run] blocks until its context ends. Any number of replicas may run on one
// table. Three things keep them apart, from the weakest to the strongest:
//
//   - the schedule: one run at a time in each process, every second by default;
//   - the [Locker]: one run at a time in the replica set (with one slot), so that the
//     others do not scan in vain. It is an efficiency; losing it breaks nothing;
//   - the claim: the database leases each row to one instance, and a settlement applies
//     only while that lease is still its own.
//
// One run: while the sender is ready, for each service with due rows in turn, claim a
// batch, check each row, send it, and claim the next batch while confirms are
// outstanding, until nothing is due. Outcomes are written in batches; a row that could
// not be sent is handed back at once. While no channel is healthy nothing is claimed, so
// an outage of the broker spends no attempts.
//
// Beside the runs, whether the broker is there or not:
//
//   - alerts. A row that goes DEAD owes an alert, in the table: it is claimed, told to the
//     [Alerter] with all rows of its service, exchange, routing key and code, and marked.
//     Many routing keys or exchanges with one cause are told as one. No process that ends
//     and no sink that hangs loses one; it may be told twice. Broken exchanges, rows of a
//     newer version and rows that wait for long are told too;
//   - retention: history and, where asked for, DEAD rows are deleted by age.
//
// One replica of those that share a [Locker] does this upkeep, for the whole table.
//
// An exchange that the broker refuses, by 404 or 403, is broken: its rows wait without
// being charged, but for one at a time that is sent alone to find out whether the
// exchange takes messages again. The row that is charged least goes first.
//
// What it does not do: it gives no order, and it cannot exclude that a process that was
// paused in the middle of a write to the socket sends a message a second time. A repeat
// has the same id. It never publishes what it has not claimed, creates no topology and
// reads no queue.
package compensator
