package model

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// LetterStatus is the state of a stored dead letter.
type LetterStatus string

// The statuses, readable in a SQL shell.
const (
	LetterOpen      LetterStatus = "OPEN"      // waits for a person
	LetterReplayed  LetterStatus = "REPLAYED"  // sent back; what became of it, its row and its children tell
	LetterParked    LetterStatus = "PARKED"    // was sent back and given up again: it waits for work by hand
	LetterDiscarded LetterStatus = "DISCARDED" // must not be handled any more
)

// LetterStatuses are all of them, in the order of a letter's life.
func LetterStatuses() []LetterStatus {
	return []LetterStatus{LetterOpen, LetterReplayed, LetterParked, LetterDiscarded}
}

// The causes of dead letters that the broker makes, beside the Cause constants of consumers. What else it calls a
// reason is a cause under its own name.
const (
	// CauseRejected: a consumer rejected it and told no more.
	CauseRejected = "rejected"
	// CauseLimit: delivered too often without an answer. It may be that no handler ever saw it.
	CauseLimit = "delivery_limit"
	// CauseUnknown: nothing tells.
	CauseUnknown = "unknown"
)

// DeadLetter is a message that a consumer gave up, as it is stored. Names and the wire id are any bytes. Times are Unix
// milliseconds, CreatedAt, UpdatedAt, ReplayedAt and AlertAt of the database's clock, the others of whoever tells them.
type DeadLetter struct {
	// ID is the rejection's: a UUID, never the message's.
	ID string
	// WireID is the message-id; nil where the message has none.
	WireID []byte
	// Queue gave it up, Exchange and RoutingKey are those that its publisher named.
	Queue, Exchange, RoutingKey string
	Status                      LetterStatus
	// Cause is one of the Cause constants or the broker's word, Text what the consumer said, at most [MaxErrorText].
	Cause, Text string
	// Count is how often the broker dead-lettered it for this cause, Attempts how many of a consumer's failed.
	Count    int64
	Attempts int
	// Service is whose READY row a replay becomes, Key the business key.
	Service, Key string
	Properties   WireProperties
	Payload      []byte // byte for byte
	Size         int    // bytes of Payload and Properties
	// FirstAt and LastAt are the first and the last failure; 0 where nothing tells.
	FirstAt, LastAt int64
	// Replays is how often the message had come back when it was given up this time, and Parent the dead letter that
	// it was sent back from; "" for none.
	Replays int
	Parent  string
	// Version grows with each change, Epoch with each of content.
	Version, Epoch int
	// ReplayedAt and ReplayID are the last replay of this letter, and the row that it became.
	ReplayedAt int64
	ReplayID   string
	ClaimedBy  string // who tells people of it
	AlertAt    int64  // when its alert is owed
	CreatedAt  int64
	UpdatedAt  int64
	// Unreplayable says why it cannot be sent again as it is; "" where it can.
	Unreplayable string
	// Original is the content as the broker delivered it, where the letter was edited; else nil.
	Original *LetterContent
	// ErasedAt is when its content was removed for good, or 0.
	ErasedAt int64
	// Became is what became of the last replay, of a letter that is REPLAYED; read alone, never stored.
	Became Became
}

// LetterContent is what an edit of a dead letter changes and an erasure removes.
type LetterContent struct {
	Properties WireProperties
	Payload    []byte
}

// Waiting is the status of a letter that waits for a person: PARKED where it was sent back before.
func (l *DeadLetter) Waiting() LetterStatus {
	if l.Replays > 0 {
		return LetterParked
	}
	return LetterOpen
}

// Code is the cause as the code of an event, which is ASCII; [CodeOther] for any other.
func (l *DeadLetter) Code() CauseCode {
	for i := range len(l.Cause) {
		if l.Cause[i] >= utf8.RuneSelf {
			return CodeOther
		}
	}
	return CauseCode(l.Cause)
}

// Rejected is a message as it comes out of a dead-letter queue. Names are any bytes.
type Rejected struct {
	// Source is the dead-letter queue.
	Source               string
	Exchange, RoutingKey string // of this delivery
	Properties           WireProperties
	Body                 []byte
}

// Letter returns the dead letter of what came, OPEN or PARKED, and shares its body. Whatever the message holds: what
// cannot be read is left empty. Of two deliveries of one rejection the ids are equal, where it can be told.
func (r *Rejected) Letter(service string) DeadLetter {
	v := r.Properties.View()
	death, died := firstDeath(v.Headers)
	l := DeadLetter{
		Queue: r.Source, Exchange: r.Exchange, RoutingKey: r.RoutingKey, Cause: CauseUnknown,
		Service: service, Properties: r.Properties, Payload: r.Body, Size: len(r.Body) + len(r.Properties), Epoch: 1,
	}
	if v.HasID {
		l.WireID = []byte(v.ID)
	}
	if died {
		l.Queue, l.Exchange, l.Cause, l.Count = death.queue, death.exchange, death.reason, death.count
		l.RoutingKey = death.key
		l.FirstAt, l.LastAt = death.at, death.at
	}
	h := wireHeaders(v.Headers)
	// A copy of a consumer's has no x-death. Where its work queue has added one since, the broker gave it up later, and
	// the rejection is an earlier one; where another queue has, that has only passed the copy on.
	rejection := h.text(HeaderRejection)
	ours := rejection != "" && (!died || death.queue != h.text(HeaderQueue))
	h.history(&l, ours || !died)
	if ours {
		l.Cause, l.Text = h.text(HeaderCause), CleanText(h.text(HeaderError))
		l.Attempts = int(h.count(HeaderAttempts))
	}
	l.Cause = named(l.Cause, maxCause, CauseUnknown)
	l.Key = named(h.text(HeaderKey), maxShortStr, "")
	l.Replays = int(h.count(HeaderReplays))
	if l.Parent = h.text(HeaderReplayOf); !isID(l.Parent) {
		l.Parent = ""
	}
	l.Status = l.Waiting()
	l.ID = letterID(&l, rejection, ours, death.at)
	_, err := l.replay(Replay{}, &v)
	if err != nil {
		l.Unreplayable = CleanText(err.Error())
	}
	return l
}

// history fills in what headers of ours tell of the way before. elsewhere says that nothing tells it better.
func (h wireHeaders) history(l *DeadLetter, elsewhere bool) {
	if q := h.text(HeaderQueue); q != "" && (elsewhere || q == l.Queue) {
		l.Queue = q
		l.Exchange, l.RoutingKey = h.text(HeaderExchange), h.text(HeaderRoutingKey)
		if at := h.count(HeaderFirstFailedAt); at > 0 {
			l.FirstAt = at
		}
		if at := h.count(HeaderFailedAt); at > 0 && elsewhere {
			l.LastAt = at
		}
	}
}

const maxCause = 32 // bytes of the column

// letterID is the rejection's id: the consumer's, or where the broker gave the message up one that its other delivery
// gets too. Without a wire id nothing tells two deliveries of one message from two equal ones.
func letterID(l *DeadLetter, rejection string, ours bool, died int64) string {
	switch {
	case ours && isID(rejection):
		return rejection
	case len(l.WireID) == 0:
		return NewID()
	}
	sum := sha256.Sum256(l.Payload)
	return StableID("dead-letter", l.Queue, string(l.WireID), string(sum[:]), rejection, fmt.Sprint(died))
}

// Again is the letter under another id, where its own holds one with another body: a rejection's id was used twice.
func (l *DeadLetter) Again() DeadLetter {
	other := *l
	sum := sha256.Sum256(l.Payload)
	other.ID = StableID("dead-letter-again", l.ID, string(sum[:]))
	return other
}

// SameLetter reports whether what came is the letter that is stored under its id: a later delivery may have further
// headers, and the stored one may have been edited or erased since the first.
func SameLetter(stored, came *DeadLetter) bool {
	payload := stored.Payload
	switch {
	case stored.ErasedAt > 0:
		payload = came.Payload
	case stored.Original != nil:
		payload = stored.Original.Payload
	}
	return bytes.Equal(payload, came.Payload) && bytes.Equal(stored.WireID, came.WireID)
}

func isID(s string) bool {
	_, ok := canonicalID(s)
	return ok
}

// named is a name from a header where a column takes it, else otherwise.
func named(s string, most int, otherwise string) string {
	if s == "" || len(s) > most || !utf8.ValidString(s) || hasNUL(s) {
		return otherwise
	}
	return s
}

// wireHeaders reads headers that may be of any type.
type wireHeaders map[string]any

// text is a short string, or "".
func (h wireHeaders) text(name string) string {
	s, _ := h[name].(string)
	if len(s) > MaxErrorText {
		return ""
	}
	return s
}

// count is a number of ours from 0 on; else 0.
func (h wireHeaders) count(name string) int64 {
	n, _ := h[name].(int64)
	return max(n, 0)
}

// death is an entry of x-death.
type death struct {
	queue, reason, exchange, key string
	count, at                    int64
}

// firstDeath is the last time that the message was dead-lettered by another queue than one of a ladder: the broker
// writes the newest entry first. An entry that names no queue tells nothing.
func firstDeath(h map[string]any) (death, bool) {
	entries, _ := h["x-death"].([]any)
	for _, e := range entries {
		t, _ := e.(map[string]any)
		in := wireHeaders(t)
		d := death{
			queue: in.text("queue"), reason: in.text("reason"), exchange: in.text("exchange"), count: in.count("count"),
		}
		if d.queue == "" || len(d.queue) > maxShortStr || len(d.exchange) > maxShortStr || IsStep(d.queue) {
			continue
		}
		if at, ok := in["time"].(time.Time); ok {
			d.at = max(at.UnixMilli(), 0)
		}
		if keys, _ := in["routing-keys"].([]any); len(keys) > 0 {
			d.key, _ = keys[0].(string)
		}
		if len(d.key) > maxShortStr {
			d.key = ""
		}
		return d, true
	}
	return death{}, false
}

// IsStep reports whether a name is that of a ladder's queue, of whatever work queue: QUEUE.retry.STEP.
func IsStep(name string) bool {
	at := strings.LastIndex(name, ".retry.")
	if at <= 0 {
		return false
	}
	step := name[at+len(".retry."):]
	d, err := time.ParseDuration(step)
	return err == nil && d > 0 && StepName(d) == step
}
