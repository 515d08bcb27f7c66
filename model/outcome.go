package model

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// OutcomeKind is the kind of an [Outcome].
type OutcomeKind uint8

// The kinds of outcome. Their zero value is none of them.
const (
	// Acked: confirmed by the broker and not returned. The row is deleted.
	Acked OutcomeKind = iota + 1
	// Nacked: the broker refused responsibility (such as a full queue with
	// reject-publish). The row stays READY; an attempt is counted.
	Nacked
	// Returned: no queue took it (basic.return). The row stays READY; an attempt is
	// counted.
	Returned
	// Refused: the broker closed a channel because of this very message. An attempt is
	// counted, or, when it can never succeed, the row goes DEAD at once.
	Refused
	// Unknown: the connection or channel went away, the write broke or the confirm
	// timed out. The broker may have it. The row stays READY; no attempt is counted.
	Unknown
	// Deferred: not sent now. The row is safe and due, now or after Outcome.Wait; the compensator
	// sends it.
	Deferred
)

var kindNames = [...]string{"", "acked", "nacked", "returned", "refused", "unknown", "deferred"}

// String returns the kind's word, such as "acked".
func (k OutcomeKind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText returns String.
func (k OutcomeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// CauseCode classifies the cause of an outcome that is not [Acked]. AMQP reply codes are
// their decimal text; the others are words. It is stored in the row's last_code.
type CauseCode string

// The codes.
const (
	CodeNoRoute       CauseCode = "312"           // returned: no binding matched
	CodeAccessRefused CauseCode = "403"           // refused: no permission, or an internal exchange
	CodeNotFound      CauseCode = "404"           // refused: the exchange does not exist
	CodePrecondition  CauseCode = "406"           // refused: too large or malformed for this broker
	CodeNack          CauseCode = "nack"          // nacked
	CodeClosed        CauseCode = "closed"        // unknown: channel or connection closed
	CodeTimeout       CauseCode = "timeout"       // unknown: no confirm in time
	CodeSuspect       CauseCode = "suspect"       // unknown: may be what closed channel or connection; goes alone
	CodeWrite         CauseCode = "write"         // unknown: the write to the socket broke
	CodeNotSent       CauseCode = "not-sent"      // deferred: gate closed, no room, or too late to send safely
	CodeCorrupt       CauseCode = "corrupt"       // the row's properties cannot be decoded
	CodeInvalid       CauseCode = "invalid"       // the row's message does not pass the validator
	CodeNewerCodec    CauseCode = "newer-codec"   // the row was written by a newer version
	CodeCrashLoop     CauseCode = "crash-loop"    // refused: the row ended every process that was to send it
	CodeUnread        CauseCode = "unread"        // unknown: the row's content cannot be read from the database
	CodeOther         CauseCode = "refused-other" // refused: any other channel or connection exception
)

// Outcome is what became of one send. It is a plain value.
type Outcome struct {
	// Kind decides what happens to the row.
	Kind OutcomeKind
	// Code classifies the cause; empty when Acked.
	Code CauseCode
	// Text is the broker's or the library's own words, cleaned by [CleanText].
	Text string
	// Permanent says that the same message can never be accepted: the row goes DEAD
	// without further attempts. Only with Refused.
	Permanent bool
	// Wait is how long the row waits before it is due again, because the broker refuses its
	// exchange or does not confirm its route. Only with Deferred; zero is no wait.
	Wait time.Duration
	// Reply is AMQP's reply code where the broker closed a channel or connection, such as 403;
	// 0 else.
	Reply int
	// Refused is the right that the broker refused. Only with the reply 403.
	Refused Right
}

// Right is what a refusal of access is about.
type Right uint8

// The rights. Their zero value says that none was refused.
const (
	// ExchangeRight is the right to write to the exchange.
	ExchangeRight Right = iota + 1
	// TopicRight is the right to write to the exchange with the message's routing key.
	TopicRight
	// OtherTopicRight is the right to a routing key of a message that was in flight beside it.
	OtherTopicRight
)

// String returns the outcome for people, such as "returned (312 NO_ROUTE)".
func (o Outcome) String() string {
	s := o.Kind.String()
	detail := o.Code.Cause(o.Text)
	if o.Kind == Acked || detail == "" {
		return s
	}
	return s + " (" + detail + ")"
}

// MaxErrorText is the bound of a stored error text, in bytes.
const MaxErrorText = 1024

// CleanText makes s fit for every store and terminal: valid UTF-8, without NUL, at
// most [MaxErrorText] bytes and cut on a rune.
func CleanText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= MaxErrorText {
		return s
	}
	cut := MaxErrorText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
