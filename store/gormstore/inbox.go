package gormstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// minRecordWait is the shortest wait that every server knows: MySQL and MariaDB count seconds.
const minRecordWait = time.Second

// recordConflict makes an existing record no error: an error aborts a transaction on
// PostgreSQL, and on MySQL a count could not tell, where clientFoundRows is set.
const recordConflict = " ON CONFLICT (consumer, record_key) DO NOTHING"

// errRecordHeld says that a record is being written by somebody else.
var errRecordHeld = errors.New("somebody else is at this message: their transaction is still open")

// RecordTx writes the record through the caller's transaction and reports whether it is the
// first. False means that the effect exists: roll back, since one of several names may have
// been written. The server's duplicate error or its row count tells, never a read before.
//
// A rival whose transaction is open makes it wait: at most for wait, at least 1 s, rounded up
// to seconds on MySQL and MariaDB. It is bounded for this statement alone, and the session
// stays as it was. Where the server has no such bound (MySQL) the statement is given up by its
// context, which closes the connection. SQLite waits for its own busy timeout.
//
// Roll back on every error; [Store.TxFault] says what it means.
func (s *Store) RecordTx(
	ctx context.Context, x model.Execer, r model.InboxRecord, wait time.Duration,
) (first bool, err error) {
	if err := r.Check(); err != nil {
		return false, err
	}
	if wait < minRecordWait {
		return false, fmt.Errorf("inbox: wait %s must be at least %s", wait, minRecordWait)
	}
	query, args := s.recordStatement(&r, wait)
	if s.d.name != dialectMySQL {
		n, err := affected(x.ExecContext(ctx, query, args...))
		return n == len(r.Names()), err
	}
	err = s.execWithin(ctx, x, wait, query, args)
	if s.d.classify(err) == classDuplicate {
		return false, nil
	}
	return err == nil, err
}

// execWithin gives a statement up after wait where the server cannot.
func (s *Store) execWithin(
	ctx context.Context, x model.Execer, wait time.Duration, query string, args []any,
) error {
	if s.maria {
		_, err := x.ExecContext(ctx, query, args...)
		return err
	}
	call, cancel := context.WithTimeoutCause(ctx, wait, errRecordHeld)
	defer cancel()
	_, err := x.ExecContext(call, query, args...)
	if err != nil && errors.Is(context.Cause(call), errRecordHeld) {
		return fmt.Errorf("%w: %w", errRecordHeld, err)
	}
	return err
}

// recordStatement is the INSERT of a record and its parameters, portable over drivers: no
// arrays, and bytes beyond ASCII as digits where a session's character set could change them.
func (s *Store) recordStatement(r *model.InboxRecord, wait time.Duration) (query string, args []any) {
	if s.d.dollar {
		return s.recordPostgres(r, wait)
	}
	key, value := s.recordKey(r.Key)
	var tuples strings.Builder
	for _, name := range r.Names() {
		tuples.WriteString(",(?," + key + ",?," + s.d.now + ")")
		args = append(args, name, value, r.Mark)
	}
	query = "INSERT INTO " + s.sql.inbox + " (consumer, record_key, mark, done_at) VALUES " + tuples.String()[1:]
	if s.maria {
		seconds := (wait + time.Second - 1) / time.Second
		return "SET STATEMENT innodb_lock_wait_timeout=" + strconv.FormatInt(int64(seconds), 10) + " FOR " + query, args
	}
	if s.d.name == dialectSQLite {
		query += recordConflict
	}
	return query, args
}

// recordPostgres sets lock_timeout for the INSERT alone, in the same statement: before it in
// a step that the INSERT reads from, and back when a row is in. Where none is, the transaction
// ends. Two more round trips for each message would be the other way.
func (s *Store) recordPostgres(r *model.InboxRecord, wait time.Duration) (query string, args []any) {
	args = []any{strconv.FormatInt(wait.Milliseconds(), 10), r.Key, r.Mark}
	var tuples strings.Builder
	for _, name := range r.Names() {
		args = append(args, name)
		tuples.WriteString(",($" + strconv.Itoa(len(args)) + "::text)")
	}
	return "WITH was AS MATERIALIZED (SELECT current_setting('lock_timeout') AS v), " +
		"wait AS MATERIALIZED (SELECT set_config('lock_timeout', $1, true) AS v FROM was WHERE was.v IS NOT NULL) " +
		"INSERT INTO " + s.sql.inbox + " (consumer, record_key, mark, done_at) " +
		"SELECT n.name, $2::bytea, $3::bigint, " + s.d.now + " FROM wait, (VALUES " + tuples.String()[1:] +
		") AS n (name) WHERE wait.v IS NOT NULL" + recordConflict +
		" RETURNING set_config('lock_timeout', (SELECT v FROM was), true)", args
}

// recordKey is the placeholder of a key and its parameter.
func (s *Store) recordKey(key []byte) (placeholder string, value any) {
	if s.d.name == dialectMySQL && !ascii(key) {
		return "UNHEX(?)", hex.EncodeToString(key)
	}
	return "?", key
}

// recordWhere is the condition that finds a record under any of its names.
func (s *Store) recordWhere(r *model.InboxRecord) (cond string, args []any) {
	names := r.Names()
	for _, n := range names {
		args = append(args, n)
	}
	key, value := s.recordKey(r.Key)
	return "consumer IN (" + placeholders(len(names)) + ") AND record_key = " + key, append(args, value)
}

// RecordedTx reports whether the transaction still holds the record that it wrote with this
// mark. It does not after an error that ended the transaction and was overlooked: InnoDB
// answers a deadlock by rolling everything back, and what comes after it runs in autocommit.
// On PostgreSQL, which refuses everything after an error, nothing is asked.
func (s *Store) RecordedTx(ctx context.Context, x model.Transaction, r model.InboxRecord) (bool, error) {
	if s.d.dollar {
		return true, nil
	}
	key, value := s.recordKey(r.Key)
	var n int
	err := x.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+s.sql.inbox+
		" WHERE consumer = ? AND record_key = "+key+" AND mark = ?", r.Consumer, value, r.Mark).Scan(&n)
	return n == 1, err
}

// Recorded reports whether the effect exists, for who would do something expensive before
// its transaction. True is final; false is not, and only [Store.RecordTx] decides.
func (s *Store) Recorded(ctx context.Context, r model.InboxRecord) (bool, error) {
	if err := r.Check(); err != nil {
		return false, err
	}
	done, err := s.recorded(ctx, s.db, &r)
	return done, s.wrap("look up an inbox record", err)
}

func (s *Store) recorded(ctx context.Context, q rowQuerier, r *model.InboxRecord) (bool, error) {
	cond, args := s.recordWhere(r)
	var n int
	err := q.QueryRowContext(ctx, s.d.bind("SELECT COUNT(*) FROM "+s.sql.inbox+" WHERE "+cond), args...).Scan(&n)
	return n > 0, err
}
