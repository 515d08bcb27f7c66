package model

import (
	"context"
	"database/sql"
	"time"
)

// Execer is the part of a caller's transaction that is borrowed to store messages:
// *sql.Tx, a *sql.Conn after BEGIN, sqlx's and gorm's transactions have it. It cannot begin,
// commit or roll back.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Draft is a row to insert: the store sets its times from the database's clock, with
// NextAttemptAt = now + Delay, but never before the row's NotBefore. A row that its
// publisher sends itself has ClaimedBy: it is leased from the start.
type Draft struct {
	TransMessage
	// Delay until the row is due: the sender's lease, or zero.
	// Negative counts as zero.
	Delay time.Duration
}

// Stored is what Insert found for one Draft.
type Stored uint8

// The results of an insert.
const (
	// StoredNew: the row was stored by this call.
	StoredNew Stored = iota + 1
	// StoredBefore: a READY row with this id and equal content exists; nothing changed.
	StoredBefore
	// StoredDead: a DEAD row with this id and equal content exists; nothing changed.
	StoredDead
	// StoredOther: a row with this id and other content exists; nothing changed.
	StoredOther
)

// RowKey names a row in one epoch. A delete carries it so that a late ack never
// deletes a row that was replayed or edited since, or another life of the id.
type RowKey struct {
	ID    string
	Epoch int
}

// Held names a row as it was sent: a longer lease is given to no later version of it.
type Held struct {
	ID             string
	Epoch, Version int
}

// RowState is what a read-back finds of a row.
type RowState struct {
	Version, Epoch int
	Status         Status
	// LeaseLeft is the time until the row is due, by the database's clock; negative when
	// it is due already.
	LeaseLeft time.Duration
}

// Cursor is a position in the order of claims: due time, then id.
type Cursor struct {
	DueAt int64
	ID    string
}

// Claim asks for due rows of one service.
type Claim struct {
	Service string
	// Instance is stored as claimed_by: the instance that holds the lease.
	Instance string
	// Lease is how long the rows are the instance's.
	Lease time.Duration
	// MaxRows bounds the rows, MaxBytes their summed Size; at least one row is returned
	// however large.
	MaxRows  int
	MaxBytes int64
	// LoneFrom is the number of claims without a settle, this one included, from which a row is
	// claimed alone: it may end its claimer. At least 1; 0 means never.
	LoneFrom int
	// After excludes everything up to and including this position: within one drain the
	// scan need not walk again over what it already claimed. Zero means from the start.
	After Cursor
	// Bare claims rows without reading their properties and bodies, which are then nil: for
	// one whose content cannot be read.
	Bare bool
}

// Claimed is what a claim returned.
type Claimed struct {
	// Rows in due order, with the version and claims they have under the lease. Their
	// NextAttemptAt is the due time they had before the claim.
	Rows []TransMessage
	// Last is the position of the last row looked at; pass it as the next After.
	Last Cursor
	// More says that the claim ended at a bound: more rows may be due now.
	More bool
	// LoneNext says that the bound was a row that must be claimed alone: it comes first in the next
	// claim, before which the rows of this one should have their outcomes.
	LoneNext bool
}

// Settlement is the result of one send written back to its row. It is a fenced update:
// it applies only where the row still has Version.
type Settlement struct {
	ID      string
	Epoch   int // the epoch the row had when it was sent
	Version int // the version the row had when it was sent; becomes Version+1
	Status  Status
	// Delay from the database's now to the next attempt (READY) or look (DEAD). An attempt is
	// never before the row's NotBefore.
	Delay time.Duration
	// AttemptsDelta and FailuresDelta are added to the row's counts: 0 or 1.
	AttemptsDelta, FailuresDelta int
	// ClosesDelta is added to the row's Closes: 0 or 1.
	ClosesDelta int
	// Exhausted says that the row's attempts are used up and that it stays READY: its alert is
	// owed from then on, in the same transaction, once in an epoch.
	Exhausted bool
	// Outcome is the cause: its code and text are stored in the row and, unless the kind
	// is Deferred, as one event. A Deferred settlement hands the row back, changes no counts
	// and, where its code is empty or [CodeNotSent], leaves the row's cause alone.
	Outcome Outcome
	// Instance is who sent it, for the event.
	Instance string
}

// Settled is what a settlement met.
type Settled uint8

// The results of a settlement.
const (
	// SettledDone: the row was updated.
	SettledDone Settled = iota + 1
	// SettledFenced: the row exists with another version: somebody else owns it now.
	SettledFenced
	// SettledGone: there is no such row.
	SettledGone
)

// Event is one line of a row's history: a failed send or an operator's act.
type Event struct {
	RowID    string
	At       int64  // Unix milliseconds, database clock
	Kind     string // an outcome's kind or one of the Event constants
	Code     CauseCode
	Text     string
	Attempts int // the row's attempts after it
	Instance string
	Actor    string // the operator; empty for a send
	// Epoch is the row's after an edit, and that of the message for a late ack; 0 for others.
	Epoch int
}

// Stats are counts and ages of one service's rows, from the database's clock.
type Stats struct {
	Service   string
	Ready     int64
	Due       int64 // READY and due now
	Dead      int64
	Exhausted int64         // READY, with attempts used up: sent on at the longest delay
	OldestDue time.Duration // how long the oldest due row has been due; 0 when none is
	// OldestReady is the age of the oldest READY row since it was stored, or since its NotBefore
	// where that was later. Rows that still wait for it do not count.
	OldestReady time.Duration
	// Ahead is how far in the future of the database's clock the newest READY row was stored:
	// so far at least the clock has gone back. 0 is the usual.
	Ahead time.Duration
}

// Filter selects rows for listing. Zero fields do not restrict.
type Filter struct {
	Service, Exchange, RoutingKey, Key string
	Status                             Status
	Code                               CauseCode
	// Exhausted restricts to READY rows whose attempts are used up.
	Exhausted bool
	// Waiting restricts to READY rows that nobody is sending and that are not due yet after a send
	// that failed or was put off; with Early also to those that were never tried: their NotBefore has not come.
	Waiting, Early bool
	// OlderThan restricts to rows that were stored at least this long ago.
	OlderThan time.Duration
	// After continues a listing: rows with a larger id. Limit bounds the rows, 1 to
	// 10,000; 0 means 100.
	After string
	Limit int
}
