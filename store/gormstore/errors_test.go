package gormstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	mysqlstore "github.com/transmsg/transmsg/store/mysql"
	"github.com/transmsg/transmsg/store/postgres"
)

func mysqlError(number uint16) error { return &mysql.MySQLError{Number: number} }

func postgresError(code string) error { return &pgconn.PgError{Code: code} }

// safe is an error of which pgx knows that nothing was sent.
type safe struct{ error }

func (e safe) Unwrap() error { return e.error }

func (safe) SafeToRetry() bool { return true }

// TestWhatErrorsSay: only what the server certainly undid is certain.
func TestWhatErrorsSay(t *testing.T) {
	t.Parallel()
	my, pg := mysqlstore.DSN("u@tcp(h)/d").Judge(), postgres.DSN("postgres://u@h/d").Judge()
	for name, c := range map[string]struct {
		err  error
		want gormstore.Class
	}{
		"deadlock":                     {mysqlError(1213), gormstore.ClassRetry},
		"lock wait timeout":            {mysqlError(1205), gormstore.ClassBusy},
		"lock not available":           {postgresError("55P03"), gormstore.ClassBusy},
		"network":                      {mysqlError(1160), gormstore.ClassUnknown},
		"interrupted":                  {mysqlError(1317), gormstore.ClassUnknown},
		"refused":                      {mysqlError(1142), gormstore.ClassRefused},
		"commit undone by rivals":      {my.CommitError(mysqlError(1213)), gormstore.ClassRetry},
		"commit not serializable":      {pg.CommitError(postgresError("40001")), gormstore.ClassRetry},
		"packet that is too large":     {fmt.Errorf("insert: %w", mysql.ErrPktTooLarge), gormstore.ClassData},
		"postgres says never sent":     {safe{errors.New("no")}, gormstore.ClassNotSent},
		"no answer":                    {errors.New("eof"), gormstore.ClassUnknown},
		"commit never sent":            {my.CommitError(driver.ErrBadConn), gormstore.ClassNotSent},
		"commit interrupted":           {my.CommitError(mysqlError(1317)), gormstore.ClassUnknown},
		"commit refused":               {my.CommitError(mysqlError(1290)), gormstore.ClassUnknown},
		"commit refused by data":       {pg.CommitError(postgresError("23514")), gormstore.ClassUnknown},
		"commit without a server":      {pg.CommitError(postgresError("57P03")), gormstore.ClassUnknown},
		"commit at its deadline":       {my.CommitError(context.DeadlineExceeded), gormstore.ClassUnknown},
		"statement before the commit":  {my.Uncommitted(mysqlError(1317)), gormstore.ClassNotSent},
		"deadlock before the commit":   {my.Uncommitted(mysqlError(1213)), gormstore.ClassRetry},
		"lock timeout before a commit": {my.Uncommitted(mysqlError(1205)), gormstore.ClassBusy},
	} {
		judge := my
		if pgErr, isSafe := (*pgconn.PgError)(nil), (safe{}); errors.As(c.err, &isSafe) || errors.As(c.err, &pgErr) {
			judge = pg
		}
		if got := judge.Classify(c.err); got != c.want {
			t.Errorf("%s: got class %d, want %d", name, got, c.want)
		}
	}
	if err := my.CommitError(nil); err != nil {
		t.Errorf("commit without an error: %v", err)
	}
	if err := my.StoreError(my.CommitError(mysqlError(1317))); !errors.Is(err, model.ErrStoreUnknown) {
		t.Errorf("an interrupted commit is %v, want ErrStoreUnknown", err)
	}
}
