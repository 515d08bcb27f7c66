package consumer

import (
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// message is a delivery as a handler sees it, and the count of its crash header.
func (q *queue) message(raw *amqp.Delivery) (m *Message, crashes int) {
	h := table(raw.Headers)
	m = &Message{
		Queue: q.cfg.Name, ID: raw.MessageId, Exchange: raw.Exchange, RoutingKey: raw.RoutingKey,
		Body: raw.Body, Headers: h, Redelivered: raw.Redelivered,
		Properties: model.Properties{
			ContentType: raw.ContentType, ContentEncoding: raw.ContentEncoding, Priority: raw.Priority,
			CorrelationID: raw.CorrelationId, ReplyTo: raw.ReplyTo, Expiration: raw.Expiration, Type: raw.Type,
			AppID: raw.AppId, UserID: raw.UserId, Timestamp: raw.Timestamp,
		},
		Key: text(h, model.HeaderKey), Attempt: 1, Replays: count(h, model.HeaderReplays),
		DeliveryCount: deliveries(h),
	}
	if text(h, model.HeaderQueue) == q.cfg.Name { // a copy of this queue's; another queue's attempts are its own
		crashes = count(h, model.HeaderCrashes)
		q.history(m)
	}
	m.MaxAttempts = q.cfg.ladder().Attempts()
	if m.Replays > 0 {
		m.MaxAttempts = m.Attempt // what an operator sent back does not go round the ladder
	}
	if m.Key == "" && q.cfg.Key != nil {
		m.Key = q.keyOf(m)
	}
	return m, crashes
}

// keyOf asks for the business key. A panic there is none of the message's attempts.
func (q *queue) keyOf(m *Message) (key string) {
	defer func() {
		if v := recover(); v != nil {
			q.log.Error("the func Key panicked", "panic", fmt.Sprint(v), "message", m.ID)
		}
	}()
	return q.cfg.Key(m)
}

// history reads what the headers of a copy tell.
func (q *queue) history(m *Message) {
	h := m.Headers
	m.Attempt += count(h, model.HeaderAttempts)
	m.First = failure(h, model.HeaderFirstFailedAt, model.HeaderFirstError)
	m.Last = failure(h, model.HeaderFailedAt, model.HeaderError)
	m.Exchange, m.RoutingKey = text(h, model.HeaderExchange), text(h, model.HeaderRoutingKey)
	if m.Properties.Expiration == "" {
		m.Properties.Expiration = text(h, model.HeaderExpiration)
	}
}

// age is the time since the message was stored, or stamped, by its publisher; 0 where it tells none.
func (m *Message) age(now time.Time) time.Duration {
	if ms, ok := m.Headers[model.HeaderStoredAt].(int64); ok && ms > 0 {
		return max(now.Sub(time.UnixMilli(ms)), 0)
	}
	if m.Properties.Timestamp.IsZero() {
		return 0
	}
	return max(now.Sub(m.Properties.Timestamp), 0)
}

// deliveries is the broker's count of earlier deliveries, or -1. A quorum queue that counts other returns apart (from
// RabbitMQ 4.3) says so by x-acquired-count.
func deliveries(h map[string]any) int {
	if _, ok := h["x-delivery-count"]; ok {
		return count(h, "x-delivery-count")
	}
	if _, ok := h["x-acquired-count"]; ok {
		return 0
	}
	return -1
}

func failure(h map[string]any, at, about string) *Failure {
	ms, ok := h[at].(int64)
	if !ok {
		return nil
	}
	return &Failure{At: time.UnixMilli(ms), Text: text(h, about)}
}

func text(h map[string]any, k string) string {
	s, _ := h[k].(string)
	return s
}

// count reads a count of ours or of the broker's: an integer of any width, from 0 to a million.
func count(h map[string]any, k string) int {
	var n int64
	switch x := h[k].(type) {
	case int64:
		n = x
	case int32:
		n = int64(x)
	case int16:
		n = int64(x)
	case int8:
		n = int64(x)
	case uint8:
		n = int64(x)
	case uint16:
		n = int64(x)
	case uint32:
		n = int64(x)
	case uint64:
		n = int64(min(x, math.MaxInt32))
	}
	return int(min(max(n, 0), 1_000_000))
}

func table(t amqp.Table) map[string]any {
	if len(t) == 0 {
		return nil
	}
	out := make(map[string]any, len(t))
	for k, v := range t {
		out[k] = field(v)
	}
	return out
}

// field converts the client library's types to the model's.
func field(v any) any {
	switch x := v.(type) {
	case amqp.Table:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = field(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = field(e)
		}
		return out
	case amqp.Decimal:
		return model.Decimal{Scale: x.Scale, Value: x.Value}
	default:
		return v
	}
}
