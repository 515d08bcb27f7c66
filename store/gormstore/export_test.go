package gormstore

import (
	"database/sql"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// Pool is the store's own pool.
func (s *Store) Pool() *sql.DB { return s.db }

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
