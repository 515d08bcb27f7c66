package confirms

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// What the broker's texts (3.10, 4.0, 4.3) say of a right is in the outcome, so that nobody
// after this looks at them.
func TestClosedWith(t *testing.T) {
	t.Parallel()
	m := &model.Message{Exchange: "ex", RoutingKey: "orders.created"}
	for _, c := range []struct {
		code   int
		reason string
		want   model.Right
	}{
		{amqp.NotFound, "NOT_FOUND - no exchange 'ex' in vhost '/'", 0},
		{
			amqp.AccessRefused, "ACCESS_REFUSED - write access to exchange 'ex' in vhost '/' refused for user 'u'",
			model.ExchangeRight,
		},
		{
			amqp.AccessRefused, "ACCESS_REFUSED - cannot publish to internal exchange 'ex' in vhost '/'",
			model.ExchangeRight,
		},
		{amqp.AccessRefused, "ACCESS_REFUSED - write access to topic 'orders.created' in exchange 'ex' in vhost '/' " +
			"refused for user 'u'", model.TopicRight},
		{amqp.AccessRefused, "ACCESS_REFUSED - write access to topic 'orders.paid' in exchange 'ex' in vhost '/' " +
			"refused for user 'u'", model.OtherTopicRight},
		{amqp.InternalError, "INTERNAL_ERROR", 0},
	} {
		o := closedWith(model.Unknown, model.CodeSuspect, &amqp.Error{Code: c.code, Reason: c.reason, Server: true}, m)
		if o.Reply != c.code || o.Refused != c.want || o.Kind != model.Unknown || o.Code != model.CodeSuspect {
			t.Errorf("%d %s: %+v, want right %d", c.code, c.reason, o, c.want)
		}
	}
}
