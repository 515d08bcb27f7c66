// Package mysql is the source of a store in MySQL 8.0+ or MariaDB 10.6+. It links
// go-sql-driver/mysql and no other driver.
package mysql

import (
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"github.com/transmsg/transmsg/store/gormstore"
)

// DSN opens a small pool of the store's own, the usual choice: storing a message then never
// waits for a connection that the service's own open transactions hold. Accepted forms are
// mysql://user:password@host:port/database?parameters (parameters of go-sql-driver),
// user:password@tcp(host:port)/database and user:password@unix(/PATH)/database. A mistake in
// it is an error of gormstore.Open, which never contains the password.
func DSN(dsn string) gormstore.Source {
	cfg, err := parse(dsn)
	if err != nil {
		return gormstore.Refused(err)
	}
	return gormstore.OwnPool(driver, "mysql "+cfg.Addr+"/"+cfg.DBName, func(o gormstore.Options) (*sql.DB, error) {
		return open(cfg, o)
	})
}

// SQL is the service's own pool, opened with go-sql-driver/mysql; its settings stay as they
// are, and it stays the caller's to close.
func SQL(db *sql.DB) gormstore.Source { return gormstore.CallersPool(driver, db) }

// Gorm is the service's own *gorm.DB, opened with gorm.io/driver/mysql; its pool's settings
// stay as they are, and it stays the caller's to close.
func Gorm(db *gorm.DB) gormstore.Source { return gormstore.CallersGorm(driver, db) }

var driver = gormstore.Driver{Dialect: "mysql", Reply: reply, Lost: lost}

func lost(err error) bool { return errors.Is(err, mysql.ErrInvalidConn) }

func reply(err error) (gormstore.Reply, bool) {
	// packetTooLarge is what the server answers to a packet that the driver does not send.
	const packetTooLarge = 1153
	if errors.Is(err, mysql.ErrPktTooLarge) {
		return gormstore.Reply{Number: packetTooLarge, Message: err.Error()}, true
	}
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) {
		return gormstore.Reply{}, false
	}
	return gormstore.Reply{Number: int(refused.Number), Message: refused.Message}, true
}
