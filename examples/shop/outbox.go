package shop

import (
	"context"
	"strings"
	"time"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/mysql"
	"github.com/transmsg/transmsg/store/postgres"
)

// drainTimeout bounds the waiting for what is on its way, when a service ends.
const drainTimeout = 15 * time.Second

// OnPostgres says of a DSN that it is PostgreSQL's; others are MySQL's. A service of your own has one kind of database
// and no such question.
func OnPostgres(dsn string) bool { return strings.HasPrefix(dsn, "postgres://") }

// Messages says where a service's messages are stored: in its own database, by a small pool beside the service's.
func Messages(dsn string) gormstore.Source {
	if OnPostgres(dsn) {
		return postgres.DSN(dsn)
	}
	return mysql.DSN(dsn)
}

// Drain closes an outbox when nobody uses it any more. What it could not send stays stored, and a compensator sends it.
func Drain(ob *transmsg.Outbox) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return ob.Close(ctx)
}
