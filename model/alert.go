package model

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
)

// AlertKind is what an [Alert] is about.
type AlertKind string

// The kinds of alert.
const (
	// AlertDead: rows went DEAD and stay until a person replays or discards them.
	AlertDead AlertKind = "dead"
	// AlertExhausted: the attempts of READY rows are used up; they are sent on at the longest
	// delay and go DEAD when they are old enough.
	AlertExhausted AlertKind = "exhausted"
	// AlertCrashLoop: rows end the processes that send them, and go DEAD unless that stops.
	AlertCrashLoop AlertKind = "crash-loop"
	// AlertNewerCodec: rows written by a newer version wait for this one's upgrade.
	AlertNewerCodec AlertKind = "newer-codec"
	// AlertUnread: rows whose content cannot be read from the database; they wait.
	AlertUnread AlertKind = "unread"
	// AlertExchange: the broker refuses an exchange, or a topic of it; its rows wait.
	AlertExchange AlertKind = "exchange-broken"
	// AlertSuspects: messages that must be sent alone wait, since their connection cannot be
	// opened.
	AlertSuspects AlertKind = "suspects-wait"
	// AlertOldest: a service's oldest READY row has waited for too long.
	AlertOldest AlertKind = "oldest-ready"
	// AlertClock: the database's clock has gone back; messages wait for longer than they should,
	// and ages are too small.
	AlertClock AlertKind = "clock-behind"
	// AlertUncollectable: a dead letter cannot be stored; it goes to the queue for such.
	AlertUncollectable AlertKind = "uncollectable"
	// AlertLetter: consumers gave messages up; they are OPEN dead letters.
	AlertLetter AlertKind = "dead-letter"
	// AlertParked: dead letters that were sent back were given up again; they are PARKED.
	AlertParked AlertKind = "parked"
	// AlertTest: somebody tries out whether alerts arrive.
	AlertTest AlertKind = "test"
)

// Alert tells a person about one group of rows that needs them: those of one kind,
// service, exchange, routing key and code. Where many routing keys, or many exchanges, have
// the same cause at a time, their rows are one group. Bodies and headers are never part of it.
type Alert struct {
	Kind AlertKind
	// Service, Exchange, RoutingKey and Code are the group's; those that do not matter
	// for the kind, or that differ within the group, are empty. Of dead letters RoutingKey is
	// the queue whose consumer gave them up, and Exchange is empty.
	Service, Exchange, RoutingKey string
	Code                          CauseCode
	// RoutingKeys and Exchanges are those of a group in which they differ; else zero.
	RoutingKeys, Exchanges AlertNames
	// Text is the cause in the broker's or the library's words, of the sample.
	Text string
	// Count is the number of rows that this alert is about.
	Count int
	// First and Last are when the first and the last of them got into this state, by the
	// database's clock.
	First, Last time.Time
	// Sample is one of the rows; empty where none is at hand.
	Sample AlertSample
	// Instance is the compensator that tells, Environment the label that it was given.
	Instance, Environment string
	// Meaning says in words what the code means, where it is known.
	Meaning string
	// Total is how many rows are in this state in all, with those of other alerts, and Oldest
	// since when the first of them is; zero where nobody counted.
	Total  int64
	Oldest time.Time
	// Command shows more and Resend sends the rows again once the cause is mended: shell
	// lines, with every name quoted. Resend is empty where there is nothing to do by hand.
	Command, Resend string
}

// MaxAlertNames bounds the names in [AlertNames].
const MaxAlertNames = 3

// AlertNames are different names of one group.
type AlertNames struct {
	// Count is how many there are.
	Count int
	// Samples are the first of them; those beyond Count are empty.
	Samples [MaxAlertNames]string
}

// String returns the count and the samples, or nothing when there are none.
func (n AlertNames) String() string {
	if n.Count == 0 {
		return ""
	}
	quoted := make([]string, min(n.Count, MaxAlertNames))
	for i := range quoted {
		quoted[i] = plain(n.Samples[i])
	}
	list := strings.Join(quoted, ", ")
	if n.Count > MaxAlertNames {
		list += ", ..."
	}
	return fmt.Sprintf("%d (%s)", n.Count, list)
}

// AlertSample names one row.
type AlertSample struct {
	// ID is the message id, Key the business key.
	ID, Key string
	// Attempts are the sends that were answered with a failure about this message.
	Attempts int
}

// String returns the alert for people, in one line. Names are quoted where they are not
// plain.
func (a *Alert) String() string {
	var b strings.Builder
	if a.Environment != "" {
		fmt.Fprintf(&b, "[%s] ", plain(a.Environment))
	}
	fmt.Fprintf(&b, "%s: %d message(s)", a.Kind, a.Count)
	if a.Total > int64(a.Count) {
		fmt.Fprintf(&b, " of %d in all", a.Total)
	}
	cause := a.Code.Cause(a.Text)
	if a.Meaning != "" {
		cause += " (" + a.Meaning + ")"
	}
	key := "routing key"
	if a.OfLetters() {
		key = "queue"
	}
	for _, p := range [...]struct{ name, value string }{
		{"service", a.Service},
		{"exchange", a.Exchange},
		{"exchanges", a.Exchanges.String()},
		{key, a.RoutingKey},
		{key + "s", a.RoutingKeys.String()},
		{"cause", cause},
		{"sample", a.Sample.ID},
		{"key", a.Sample.Key},
	} {
		if p.value != "" {
			fmt.Fprintf(&b, ", %s %s", p.name, plain(p.value))
		}
	}
	if !a.First.IsZero() {
		fmt.Fprintf(&b, ", from %s to %s", a.First.UTC().Format(time.RFC3339), a.Last.UTC().Format(time.RFC3339))
	}
	if !a.Oldest.IsZero() && a.Oldest.Before(a.First) {
		fmt.Fprintf(&b, ", the oldest since %s", a.Oldest.UTC().Format(time.RFC3339))
	}
	if a.Command != "" {
		fmt.Fprintf(&b, "; see: %s", a.Command)
	}
	if a.Resend != "" {
		fmt.Fprintf(&b, "; send again: %s", a.Resend)
	}
	return b.String()
}

// OfLetters reports whether the alert is about stored dead letters.
func (a *Alert) OfLetters() bool { return a.Kind == AlertLetter || a.Kind == AlertParked }

// LogValue makes the alert a group of attributes in a log.
func (a *Alert) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("kind", string(a.Kind)), slog.String("service", a.Service), slog.String("exchange", a.Exchange),
		slog.String("routing_key", a.RoutingKey), slog.String("code", string(a.Code)), slog.String("text", a.Text),
		slog.Int("count", a.Count), slog.String("id", a.Sample.ID), slog.String("key", a.Sample.Key),
		slog.Int("attempts", a.Sample.Attempts), slog.String("instance", a.Instance), slog.String("command", a.Command),
	}
	for _, p := range [...]struct{ name, value string }{
		{"environment", a.Environment}, {"meaning", a.Meaning}, {"resend", a.Resend},
	} {
		if p.value != "" {
			attrs = append(attrs, slog.String(p.name, p.value))
		}
	}
	if a.Total > 0 {
		attrs = append(attrs, slog.Int64("total", a.Total))
	}
	if a.RoutingKeys.Count > 0 {
		attrs = append(attrs, slog.String("routing_keys", a.RoutingKeys.String()))
	}
	if a.Exchanges.Count > 0 {
		attrs = append(attrs, slog.String("exchanges", a.Exchanges.String()))
	}
	if !a.First.IsZero() {
		attrs = append(attrs, slog.Time("first", a.First), slog.Time("last", a.Last))
	}
	return slog.GroupValue(attrs...)
}

// plain quotes what would break a line.
func plain(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
