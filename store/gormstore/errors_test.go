package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/transmsg/transmsg/model"
)

func mysqlError(number uint16) error { return &mysql.MySQLError{Number: number} }

func postgresError(code string) error { return &pgconn.PgError{Code: code} }

// TestWhatErrorsSay: only what the server certainly undid is certain.
func TestWhatErrorsSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want class
	}{
		"deadlock":                     {mysqlError(1213), classRetry},
		"lock wait timeout":            {mysqlError(1205), classBusy},
		"lock not available":           {postgresError("55P03"), classBusy},
		"network":                      {mysqlError(1160), classUnknown},
		"interrupted":                  {mysqlError(1317), classUnknown},
		"refused":                      {mysqlError(1142), classRefused},
		"commit undone by rivals":      {commitError(mysqlError(1213)), classRetry},
		"commit not serializable":      {commitError(postgresError("40001")), classRetry},
		"commit never sent":            {commitError(driver.ErrBadConn), classNotSent},
		"commit interrupted":           {commitError(mysqlError(1317)), classUnknown},
		"commit refused":               {commitError(mysqlError(1290)), classUnknown},
		"commit refused by data":       {commitError(postgresError("23514")), classUnknown},
		"commit without a server":      {commitError(postgresError("57P03")), classUnknown},
		"commit at its deadline":       {commitError(context.DeadlineExceeded), classUnknown},
		"statement before the commit":  {uncommitted(mysqlError(1317)), classNotSent},
		"deadlock before the commit":   {uncommitted(mysqlError(1213)), classRetry},
		"lock timeout before a commit": {uncommitted(mysqlError(1205)), classBusy},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%s: got class %d, want %d", name, got, c.want)
		}
	}
	if err := commitError(nil); err != nil {
		t.Errorf("commit without an error: %v", err)
	}
	s := &Store{d: dialectOf(dialectSQLite)}
	if err := s.storeError(nil, commitError(mysqlError(1317))); !errors.Is(err, model.ErrStoreUnknown) {
		t.Errorf("an interrupted commit is %v, want ErrStoreUnknown", err)
	}
}
