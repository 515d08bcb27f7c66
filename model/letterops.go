package model

import (
	"strings"
	"time"
)

// EventErase is the kind of the event by which the content of a dead letter was removed for good.
const EventErase = "erase"

// Became is what became of a replay, as far as the tables tell.
type Became string

// The ways of a replay.
const (
	BecameWaiting   Became = "waiting"      // its row is READY
	BecameDead      Became = "dead"         // its row is DEAD: the broker did not take it
	BecameDiscarded Became = "discarded"    // its row was discarded
	BecameFailed    Became = "failed-again" // a consumer gave it up again; the letter of that is PARKED
	BecameHandled   Became = "handled"      // the inbox in the same database has its record
	BecameSent      Became = "sent"         // the broker took it, and nothing tells more
)

// AllBecame are all of them, in the order of a replay's life.
func AllBecame() []Became {
	return []Became{BecameWaiting, BecameDead, BecameDiscarded, BecameSent, BecameHandled, BecameFailed}
}

// LetterFilter restricts a listing of dead letters. Zero fields select any.
type LetterFilter struct {
	Service string
	Status  LetterStatus
	// Queue, Exchange and RoutingKey are any bytes.
	Queue, Exchange, RoutingKey string
	Cause, Key                  string
	WireID                      string
	// Parent is the dead letter that they were sent back from.
	Parent string
	// OlderThan is the least age since the letter was stored.
	OlderThan time.Duration
	// Waiting leaves out what is neither OPEN nor PARKED.
	Waiting bool
	// Replayable leaves out what cannot be sent again as it is.
	Replayable bool
	// After is the id above which a listing begins, Limit the most that it returns, 1 to 10,000; it defaults to 100.
	After string
	Limit int
}

// LetterSelection names the dead letters of an operator's act, as [Selection] names messages.
type LetterSelection struct {
	IDs []string
	// Filter's After and Limit do not count.
	Filter LetterFilter
	// Max caps the letters of one call, 1 to 100,000. Defaults to 10,000.
	Max int
}

// WithDefaults returns the selection with its cap set, or says what is wrong with it.
func (s LetterSelection) WithDefaults() (LetterSelection, error) {
	f := s.Filter
	f.After, f.Limit, f.Replayable, f.Waiting = "", 0, false, false
	err := checkSelection(&s.Max, f.OlderThan, len(s.IDs) == 0 && f == LetterFilter{})
	return s, err
}

// String describes the selection for the history, such as `queue="payments" status="OPEN"` or `3 ids`.
func (s LetterSelection) String() string {
	f := &s.Filter
	return describe(len(s.IDs), f.OlderThan, []part{
		{"service", f.Service},
		{"status", string(f.Status)},
		{"queue", f.Queue},
		{"exchange", f.Exchange},
		{"routing_key", f.RoutingKey},
		{"cause", f.Cause},
		{"key", f.Key},
		{"message_id", f.WireID},
		{"parent", f.Parent},
	})
}

// LetterAct is a selection of dead letters with who acts and why; both are kept in the history.
type LetterAct struct {
	LetterSelection
	// Actor is the operator, 1 to 64 bytes.
	Actor string
	// Reason is free text; empty is allowed.
	Reason string
	// Progress is called after each committed batch with the letters done so far; nil is allowed. It runs on the
	// caller's goroutine.
	Progress func(done int)
}

// Text is what the history says of the act: reason and selection.
func (a *LetterAct) Text() string {
	return strings.Join(strings.Fields(a.Reason+" ["+a.LetterSelection.String()+"]"), " ")
}

// LetterReplay says how the letters of an act are sent again.
type LetterReplay struct {
	Replay
	// Rate spreads the due times, in rows a second: slowly at first, and at the full rate after 30 s. Zero makes all
	// rows due now.
	Rate float64
}

// LetterRefusal is a letter that could not be sent again in the way that was asked for.
type LetterRefusal struct{ ID, Why string }

// LetterPreview is what an act would touch.
type LetterPreview struct {
	// Rows is the number of letters, at most the selection's Max; More says that there are more than that.
	Rows int
	More bool
	// Bytes is the sum of their Size.
	Bytes int64
	// Old is how many of them first failed longer ago than was asked about.
	Old int
	// Causes counts them by status, queue and cause, most first.
	Causes []LetterCount
	// Samples are the first few by id, without content.
	Samples []DeadLetter
	// Routes are the different exchanges and routing keys of their publishers, in the order of ids.
	Routes []LetterRoute
	// Others counts by status, of a selection with ids, those letters that have one of the ids and do not match.
	Others map[LetterStatus]int
}

// LetterRoute is an exchange and a routing key, with the first letter that has them.
type LetterRoute struct{ Exchange, RoutingKey, SampleID string }

// LetterCount is the number of letters with one status, queue and cause.
type LetterCount struct {
	Status       LetterStatus
	Queue, Cause string
	Rows         int
}

// LetterGroup is the dead letters of one service, status, queue and cause.
type LetterGroup struct {
	Service      string
	Status       LetterStatus
	Queue, Cause string
	Rows         int64
	// Unreplayable is how many of them cannot be sent again as they are.
	Unreplayable int64
	// First and Last are when the first and the last of them were stored, in Unix milliseconds of the database's
	// clock.
	First, Last int64
	// SampleID and SampleKey are id and business key of the letter with the smallest id.
	SampleID, SampleKey string
	// Became counts, of letters that are REPLAYED, what became of them.
	Became map[Became]int64
}
