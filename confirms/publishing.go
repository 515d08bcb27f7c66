package confirms

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// publishing is the message as the client library wants it. Delivery mode 2 always:
// a transient message is acked and gone after a restart. No header is added.
func publishing(m *model.Message) amqp.Publishing {
	p := &m.Properties
	return amqp.Publishing{
		Headers:         table(m.Headers),
		ContentType:     p.ContentType,
		ContentEncoding: p.ContentEncoding,
		DeliveryMode:    amqp.Persistent,
		Priority:        p.Priority,
		CorrelationId:   p.CorrelationID,
		ReplyTo:         p.ReplyTo,
		Expiration:      p.Expiration,
		MessageId:       m.ID,
		Timestamp:       p.Timestamp,
		Type:            p.Type,
		AppId:           p.AppID,
		Body:            m.Body,
	}
}

func table(h map[string]any) amqp.Table {
	if len(h) == 0 {
		return nil
	}
	t := make(amqp.Table, len(h))
	for k, v := range h {
		t[k] = field(v)
	}
	return t
}

// field converts the containers and the decimal; every other normalized type is the
// library's own.
func field(v any) any {
	switch x := v.(type) {
	case map[string]any:
		t := make(amqp.Table, len(x))
		for k, e := range x {
			t[k] = field(e)
		}
		return t
	case []any:
		list := make([]any, len(x))
		for i, e := range x {
			list[i] = field(e)
		}
		return list
	case model.Decimal:
		return amqp.Decimal{Scale: x.Scale, Value: x.Value}
	default:
		return v
	}
}
