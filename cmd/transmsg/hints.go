package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// withNextStep adds to a failure to open the database what to do about it. The cause stays
// wrapped; it names the server and never the password.
func withNextStep(err error) error {
	if err == nil {
		return nil
	}
	if step := nextStep(err); step != "" {
		return fmt.Errorf("%w\nNext: %s", err, step)
	}
	return err
}

func nextStep(err error) string {
	var my *mysql.MySQLError
	var pg *pgconn.PgError
	var dns *net.DNSError
	switch {
	case errors.As(err, &my) && (string(my.SQLState[:]) == "28000" || my.Number == 1044),
		errors.As(err, &pg) && (pg.Code == "28P01" || pg.Code == "28000"):
		return "correct user and password in --store, or give the user the rights on this database"
	case errors.As(err, &my) && my.Number == 1049, errors.As(err, &pg) && pg.Code == "3D000":
		return "create the database, or correct its name in --store"
	case errors.As(err, &dns):
		return "correct the host name in --store"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start the database, or correct host and port in --store"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return "see whether host and port in --store are right and whether a firewall is in the way"
	case errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, mysql.ErrMalformPkt):
		return "see whether host and port in --store are those of a MySQL or MariaDB server"
	}
	return ""
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
