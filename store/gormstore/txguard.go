package gormstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/model"
)

// errNoTx explains why a row was not stored through a caller's handle.
var errNoTx = errors.New("no transaction is open on this handle: an earlier error, such as a deadlock, " +
	"has rolled it back, and a row stored now would stay; run the whole transaction again")

// guardTx makes an INSERT for a caller's transaction on MariaDB fail where there is none:
// InnoDB answers a deadlock by rolling the whole transaction back, database/sql does not
// notice, and the next statement runs in autocommit. A caller who overlooked the deadlock
// and then rolls back would have sent a message for nothing. Every tuple is guarded: in a
// session that is not strict, NULL in an INSERT of several rows becomes the empty id with
// a warning, and the second of them is a duplicate.
func (s *Store) guardTx(query string) string {
	if !s.maria {
		return query
	}
	return strings.ReplaceAll(query, "(?,", "(IF(@@in_transaction,?,NULL),")
}

// requireTx is guardTx for MySQL, which does not know @@in_transaction: without a
// transaction a savepoint is gone as soon as it is set, and releasing it is an error. It
// costs two round trips.
func (s *Store) requireTx(ctx context.Context, x model.Execer) error {
	if s.d.name != dialectMySQL || s.maria {
		return nil
	}
	for _, stmt := range []string{"SAVEPOINT transmsg_guard", "RELEASE SAVEPOINT transmsg_guard"} {
		if _, err := x.ExecContext(ctx, stmt); err != nil {
			return s.explainTx(err)
		}
	}
	return nil
}

// explainTx adds the reason to the error by which the server says that no transaction is
// open; any other error comes back unchanged.
func (s *Store) explainTx(err error) error {
	const badNull, duplicate, noSavepoint = 1048, 1062, 1305
	var my *mysql.MySQLError
	if !errors.As(err, &my) {
		return err
	}
	guarded := s.maria && (my.Number == badNull && strings.Contains(my.Message, "'id'") ||
		my.Number == duplicate && strings.Contains(my.Message, " '' "))
	if my.Number == noSavepoint || guarded {
		return fmt.Errorf("%w: %w", errNoTx, err)
	}
	return err
}
