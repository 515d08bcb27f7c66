package gormstore

import (
	"context"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// DueQuery is the locking query of a claim.
func (s *Store) DueQuery(c model.Claim) (string, []any) { return s.dueQuery(c) }

// InOrder prepares a transaction for DueQuery on PostgreSQL.
const InOrder = inOrder

// VersionAtLeast compares a server's version text.
var VersionAtLeast = versionAtLeast

// Spread is when the i-th row of a replay is due.
var Spread = spread

// Prepared are the numbers of rows for which an INSERT is prepared, sorted.
func (s *Store) Prepared() (rows []int) {
	s.prepared.mu.Lock()
	defer s.prepared.mu.Unlock()
	for n, stmt := range s.prepared.stmts {
		if stmt != nil {
			rows = append(rows, n)
		}
	}
	slices.Sort(rows)
	return rows
}

// StatsQuery is the query for the figures.
func (s *Store) StatsQuery(service string) (query string, args []any) { return s.statsQuery(service) }

// InsertText is the shared INSERT of n rows, and the clock in it.
func (s *Store) InsertText(n int) (text, now string) { return s.sql.insertText(s.d, n), s.d.now }

// InsertArgs are its parameters.
func (s *Store) InsertArgs(rows []*model.Draft) []any { return s.insertArgs(rows) }

// DeleteQuery is the statement of a delete.
func (s *Store) DeleteQuery(keys []model.RowKey) (string, []any) { return s.deleteQuery(keys) }

// DBTx is an open transaction of the store's own.
type DBTx = dbTx

// TryTx runs fn in a transaction once.
func (s *Store) TryTx(ctx context.Context, fn func(DBTx) error) error { return s.tryTx(ctx, fn) }

// AsCallersPool makes the store treat its pool as a caller's.
func (s *Store) AsCallersPool() { s.own = false }

// Maria says whether the server is MariaDB; SetMaria makes the store think so.
func (s *Store) Maria() bool      { return s.maria }
func (s *Store) SetMaria(is bool) { s.maria = is }

// ErrNoTx is what a handle without a transaction gets.
var ErrNoTx = errNoTx

// Class says what an error tells about its statement.
type Class = class

// The classes that tests ask for.
const (
	ClassUnknown = classUnknown
	ClassNotSent = classNotSent
	ClassRefused = classRefused
	ClassData    = classData
	ClassRetry   = classRetry
	ClassBusy    = classBusy
)

// Judge is what judges the errors of a source's driver.
func (src Source) Judge() *dialect { return newDialect(src.driver) }

func (d *dialect) Classify(err error) Class    { return d.classify(err) }
func (d *dialect) CommitError(err error) error { return d.commitError(err) }
func (d *dialect) Uncommitted(err error) error { return d.uncommitted(err) }

// StoreError is the failure of an INSERT on a store of this dialect.
func (d *dialect) StoreError(err error) error { return (&Store{d: d}).storeError(nil, err) }

// Classify judges an error of the store's driver.
func (s *Store) Classify(err error) Class { return s.d.classify(err) }
