package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// HeaderReplayOf is the id of the dead letter that a message was sent back from.
const HeaderReplayOf = "transmsg-replay-of"

// HeaderDeaths tells in words, for people, what the broker had written into x-death when a message was sent back.
const HeaderDeaths = "transmsg-deaths"

// Replay says how a dead letter is sent again.
type Replay struct {
	// ToExchange sends it through the exchange and with the routing key of its publisher, so that every bound queue
	// gets it. The default is the queue that gave it up and no other.
	ToExchange bool
	// AsNew gives it a new message id: consumers that have dealt with it will do so again.
	AsNew bool
}

// Row returns the READY row that sends the letter again, with an id of its own. It is sent persistent and without
// user-id, expiration and CC, keeps its wire id, and carries [HeaderReplays] and [HeaderReplayOf]. An error says why
// this letter cannot be sent that way.
func (r Replay) Row(l *DeadLetter) (TransMessage, error) {
	v := l.Properties.View()
	return l.replay(r, &v)
}

func (l *DeadLetter) replay(r Replay, v *WireView) (TransMessage, error) {
	m := Message{
		ID: v.ID, RoutingKey: l.Queue, Properties: v.Properties, Headers: replayHeaders(v.Headers, l), Body: l.Payload,
	}
	if r.ToExchange {
		m.Exchange, m.RoutingKey = l.Exchange, l.RoutingKey
	}
	m.Properties.UserID, m.Properties.Expiration = "", ""
	id := NewID()
	if r.AsNew {
		m.ID = id
	}
	if len(v.Problems) > 0 {
		return TransMessage{}, fmt.Errorf("it cannot be sent as it came: %s", strings.Join(v.Problems, "; "))
	}
	for _, name := range [...]struct{ what, text string }{{"exchange", m.Exchange}, {"routing key", m.RoutingKey}} {
		if !utf8.ValidString(name.text) || hasNUL(name.text) {
			return TransMessage{}, fmt.Errorf("the %s %q is not UTF-8 without NUL", name.what, name.text)
		}
	}
	if m.Exchange == "" && m.RoutingKey == "" {
		return TransMessage{}, fmt.Errorf("nothing tells where to: exchange and routing key are empty")
	}
	if err := CheckReceived(&m, Limits{}); err != nil {
		return TransMessage{}, err
	}
	props := encodeReplay(EncodeWire(&m))
	return TransMessage{
		ID: id, Service: l.Service, Status: Ready, MessageKey: l.Key, Exchange: m.Exchange, RoutingKey: m.RoutingKey,
		Properties: props, Payload: m.Body, Size: len(m.Body) + len(props), Epoch: NewEpoch(),
	}, nil
}

// replayHeaders are the letter's without what the broker, the ladder and the consumer wrote of the failure. Where it
// came from first stays, so that its consumer sees it.
func replayHeaders(had map[string]any, l *DeadLetter) map[string]any {
	h := make(map[string]any, len(had)+4)
	for k, v := range had {
		if !BrokerMade(k) && !ofFailure(k) {
			h[k] = v
		}
	}
	if deaths := deathsText(had); deaths != "" {
		h[HeaderDeaths] = deaths
	}
	h[HeaderQueue], h[HeaderExchange], h[HeaderRoutingKey] = l.Queue, l.Exchange, l.RoutingKey
	h[HeaderReplays], h[HeaderReplayOf] = int64(l.Replays)+1, l.ID
	return h
}

// BrokerMade reports whether a header is the broker's about one delivery, or routes a copy to further queues.
func BrokerMade(k string) bool {
	switch k {
	case "x-death", "x-delivery-count", "x-acquired-count", "CC", "BCC":
		return true
	}
	return strings.HasPrefix(k, "x-first-death-") || strings.HasPrefix(k, "x-last-death-")
}

func ofFailure(k string) bool {
	switch k {
	case HeaderAttempts, HeaderFirstFailedAt, HeaderFirstError, HeaderFailedAt, HeaderError, HeaderCrashes, HeaderCause,
		HeaderRejection, HeaderExpiration, HeaderDeaths:
		return true
	}
	return false
}

// deathsText tells the newest entries of x-death in words.
func deathsText(h map[string]any) string {
	entries, _ := h["x-death"].([]any)
	var parts []string
	for _, e := range entries[:min(len(entries), 5)] {
		t, _ := e.(map[string]any)
		in := wireHeaders(t)
		part := fmt.Sprintf("%s: %s, %d times", in.text("queue"), in.text("reason"), in.count("count"))
		if at, ok := in["time"].(time.Time); ok {
			part += ", first at " + at.Format(time.RFC3339)
		}
		parts = append(parts, part)
	}
	if more := len(entries) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return CleanText(Readable(strings.Join(parts, "; ")))
}

// replayVersion is the version of stored properties that hold the bytes of AMQP and with them the message's own id. It
// is written for replays alone: a build that does not know it leaves such rows alone.
const replayVersion = 2

const replayPrefix = `{"v":2,`

// replayed is the JSON form of a replay's properties column.
type replayed struct {
	V    int    `json:"v"`
	AMQP []byte `json:"amqp"`
}

func encodeReplay(w WireProperties) []byte {
	return fmt.Appendf(nil, `{"v":%d,"amqp":"%s"}`, replayVersion, base64.StdEncoding.EncodeToString(w))
}

// IsReplay reports whether the row sends a dead letter again: its message has the id that it had on the wire, which may
// be none or any bytes, and passes [CheckReceived] instead of [Check].
func (t *TransMessage) IsReplay() bool { return bytes.HasPrefix(t.Properties, []byte(replayPrefix)) }

func decodeReplay(b []byte, m *Message) error {
	var s replayed
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	v := WireProperties(s.AMQP).View()
	if len(v.Problems) > 0 {
		return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(v.Problems, "; "))
	}
	m.ID, m.Properties, m.Headers = v.ID, v.Properties, v.Headers
	if len(v.Headers) == 0 {
		m.Headers = nil
	}
	return nil
}
