package model

import (
	"fmt"
	"strings"
	"time"
)

// DefaultActRows and MaxActRows bound [Selection.Max].
const (
	DefaultActRows = 10_000
	MaxActRows     = 100_000
)

// The kinds of events that operators' acts and the store itself write. Those of sends are
// an outcome's kind, or [EventDead].
const (
	EventDead    = "dead"    // a send made the row DEAD
	EventReplay  = "replay"  // DEAD to READY
	EventRetry   = "retry"   // due now instead of later
	EventDiscard = "discard" // deleted by an operator
	EventEdit    = "edit"    // content changed by an operator
	EventRestore = "restore" // inserted again after it was found gone
	EventRead    = "read"    // an operator looked at the body
	EventImport  = "import"  // inserted from an export
	EventPurge   = "purge"   // deleted by age
	// EventLateAck: the message as it was before an edit was acked after it, so that both may
	// be out. The row may be gone by then.
	EventLateAck = "late-ack"
)

// Selection names the rows of an operator's act: those that match the filter and, where
// ids are given, have one of them. It must not be empty: all rows of a status are named
// by Filter.Status.
type Selection struct {
	IDs []string
	// Filter's After and Limit do not count.
	Filter Filter
	// Max caps the rows of one call, 1 to 100,000; the rest is left for the next one.
	// Defaults to 10,000.
	Max int
}

// WithDefaults returns the selection with its cap set, or says what is wrong with it.
func (s Selection) WithDefaults() (Selection, error) {
	f := s.Filter
	f.After, f.Limit = "", 0
	err := checkSelection(&s.Max, f.OlderThan, len(s.IDs) == 0 && f == Filter{})
	return s, err
}

// checkSelection sets the cap of a selection, or says what is wrong with it. empty says that it names nothing.
func checkSelection(most *int, olderThan time.Duration, empty bool) error {
	if *most == 0 {
		*most = DefaultActRows
	}
	switch {
	case *most < 1 || *most > MaxActRows:
		return fmt.Errorf("selection: Max %d must be 1 to %d", *most, MaxActRows)
	case olderThan < 0:
		return fmt.Errorf("selection: OlderThan %s must not be negative", olderThan)
	case empty:
		return fmt.Errorf("selection: it names neither ids nor a filter")
	}
	return nil
}

// String describes the selection for the history, such as
// `service="orders" status="DEAD" older=1h0m0s` or `3 ids`.
func (s Selection) String() string {
	f := &s.Filter
	var also []string
	if f.Exhausted {
		also = append(also, "exhausted")
	}
	if f.Early {
		also = append(also, "early")
	}
	return describe(len(s.IDs), f.OlderThan, []part{
		{"service", f.Service},
		{"status", string(f.Status)},
		{"exchange", f.Exchange},
		{"routing_key", f.RoutingKey},
		{"code", string(f.Code)},
		{"key", f.Key},
	}, also...)
}

// part is one condition of a filter by its name; an empty value is none.
type part struct{ name, value string }

// describe is a selection in words for the history.
func describe(ids int, olderThan time.Duration, conditions []part, also ...string) string {
	var parts []string
	if ids > 0 {
		parts = append(parts, fmt.Sprintf("%d ids", ids))
	}
	for _, c := range conditions {
		if c.value != "" {
			parts = append(parts, fmt.Sprintf("%s=%q", c.name, c.value))
		}
	}
	parts = append(parts, also...)
	if olderThan > 0 {
		parts = append(parts, "older="+olderThan.String())
	}
	return strings.Join(parts, " ")
}

// OperatorAct is a selection with who acts and why; both are kept in the history.
type OperatorAct struct {
	Selection
	// Actor is the operator, 1 to 64 bytes.
	Actor string
	// Reason is free text; empty is allowed.
	Reason string
	// Progress is called after each committed batch with the rows done so far; nil is
	// allowed. It runs on the caller's goroutine.
	Progress func(done int)
}

// Text is what the history says of the act: reason and selection.
func (a *OperatorAct) Text() string {
	return strings.Join(strings.Fields(a.Reason+" ["+a.Selection.String()+"]"), " ")
}

// Preview is what an act would touch.
type Preview struct {
	// Rows is the number of rows, at most the selection's Max; More says that there are
	// more than that.
	Rows int
	More bool
	// Bytes is the sum of their Size.
	Bytes int64
	// Leased is how many of them are READY and somebody's at the moment: they are being
	// sent, and Discard and Edit pass over them.
	Leased int
	// Causes counts the rows by status and last code, most first.
	Causes []CauseCount
	// Samples are the first few rows by id, without payload.
	Samples []TransMessage
}

// CauseCount is the number of rows with one status and last code.
type CauseCount struct {
	Status Status
	Code   CauseCode
	Rows   int
}

// Group is the rows of one service, exchange, routing key and last code.
type Group struct {
	Service, Exchange, RoutingKey string
	Code                          CauseCode
	Rows                          int64
	// First and Last are the earliest and latest time at which one of them got its
	// present state (DEAD: died), in Unix milliseconds of the database's clock.
	First, Last int64
	// SampleID and SampleKey are id and business key of the row with the smallest id.
	SampleID, SampleKey string
}

// AlertKey names the alert of one kind that is owed for a READY row in one epoch.
type AlertKey struct {
	ID    string
	Kind  AlertKind
	Epoch int
}

// DueAlert is an alert that is owed for a READY row.
type DueAlert struct {
	Kind AlertKind
	// Row comes without payload.
	Row TransMessage
	// Since is when it began to be owed, in Unix milliseconds of the database's clock.
	Since int64
}

// Key names the alert.
func (o *DueAlert) Key() AlertKey {
	return AlertKey{ID: o.Row.ID, Kind: o.Kind, Epoch: o.Row.Epoch}
}

// DeadClaim asks for rows whose alert is still owed.
type DeadClaim struct {
	// Instance is stored as claimed_by.
	Instance string
	// Lease is how long the alert is the instance's task; then another may claim it.
	Lease time.Duration
	// MaxRows bounds the rows, 1 to 5000.
	MaxRows int
}
