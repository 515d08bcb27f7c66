// Package transmsg is a transactional outbox: what a service writes to its database and what it
// publishes to RabbitMQ become true together, or not at all.
//
//	ob, err := transmsg.Open(ctx, transmsg.Config{Service: "orders", Store: mysql.DSN(dsn), AMQP: url})
//	defer ob.Close(ctx)
//	err = ob.InTx(ctx, db, nil, func(ctx context.Context, tx *sql.Tx, out *transmsg.Tx) error { ... })
//
// A message is stored in the database first, in the service's own transaction where there is
// one, then sent with publisher confirms, and deleted when the broker has taken and routed it.
// What could not be sent is sent by a compensator: the daemon `transmsg compensator`, or one in
// the service's process ([Config].Compensate). A message that is stored arrives at least once, or
// ends DEAD, kept for repair, and a person is told.
//
// The package puts the parts together and owns the order of closing. The parts are public for
// those who tune them: publisher, confirms, store/gormstore and compensator.
//
// A service links what it names: the driver of one database, by the package store/mysql,
// store/postgres or store/sqlite, and a scheduler only with a compensator.
package transmsg
