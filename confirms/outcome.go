package confirms

import (
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// outcomeOf says what a resolved confirmation means, or that it says nothing. returned is
// the return read for it, ok whether there was one; open is Channel.IsClosed() == false
// read after the confirmation was seen resolved.
//
// An ack is the broker's own in every case. No ack is the broker's nack only on an open
// channel: the library also resolves what is left with ack=false when a channel or
// connection ends, but it marks the channel closed before (updateChannel on the frame,
// Channel.shutdown and Connection.shutdown before closeResources), in the same goroutine.
// So whoever sees a confirmation resolved by a close also sees the channel closed. The
// other way round a real nack just before a close may look unknown: that is the safe side.
func outcomeOf(acked bool, returned amqp.Return, ok, open bool) (o model.Outcome, decided bool) {
	switch {
	case ok:
		// A message that no queue took is not sent, whatever the confirm says.
		return model.Outcome{
			Kind: model.Returned, Code: model.CauseCode(strconv.Itoa(int(returned.ReplyCode))),
			Text: model.CleanText(returned.ReplyText),
		}, true
	case acked:
		return model.Outcome{Kind: model.Acked}, true
	case open:
		return model.Outcome{Kind: model.Nacked, Code: model.CodeNack, Text: nackText}, true
	default:
		return model.Outcome{}, false
	}
}

// nackText says what a nack leaves open: one full queue is enough for it (tried: of six messages
// that an open queue took, five were nacked for a full one beside it).
const nackText = "a queue refused the message; other queues may have it, and get it again with each try"

// isChannelException reports whether the broker closed one channel because of what was
// done on it. The same listener also hears of the end of the connection: then the library
// has marked the connection closed before (Connection.shutdown). When both ended, the code
// tells: the connection has codes of its own (320, 501 to 504, 530, 540, 541).
func isChannelException(e *amqp.Error, connOpen bool) bool {
	if e == nil || !e.Server {
		return false
	}
	switch e.Code {
	case amqp.ContentTooLarge, amqp.AccessRefused, amqp.NotFound, amqp.ResourceLocked, amqp.PreconditionFailed:
		return true
	}
	return connOpen
}

// isConnectionException reports whether the broker closed the whole connection because of
// what was sent on it, such as 501 for a frame or 541 for a header that a queue could not
// store. Not so 320 (an operator, a shutdown) and 530 (the connection is not allowed).
func isConnectionException(e *amqp.Error) bool {
	return e != nil && e.Server && e.Code != amqp.ConnectionForced && e.Code != amqp.NotAllowed
}

// pinned is the outcome of the one send that was alone on a channel when the broker
// closed it, or on a connection.
func pinned(cause *amqp.Error, m *model.Message) model.Outcome {
	o := closedWith(model.Refused, model.CodeOther, cause, m)
	switch cause.Code {
	case amqp.NotFound:
		o.Code = model.CodeNotFound
	case amqp.AccessRefused:
		o.Code = model.CodeAccessRefused
	case amqp.PreconditionFailed:
		o.Code, o.Permanent = model.CodePrecondition, true
	}
	return o
}

// suspects says for each unresolved send of a channel that the broker closed whether it
// may be the cause. The close carries no delivery tag: 404 and 403 name the exchange,
// 406 for an oversize body its size. When the text fits none, all are suspect; so it is
// when the connection was closed, which names not even the channel.
func suspects(cause *amqp.Error, unresolved []*pending) []bool {
	out := make([]bool, len(unresolved))
	found := false
	for i, p := range unresolved {
		out[i] = namesMessage(cause, p.Message)
		found = found || out[i]
	}
	if !found {
		for i := range out {
			out[i] = true
		}
	}
	return out
}

func namesMessage(cause *amqp.Error, m *model.Message) bool {
	switch cause.Code {
	case amqp.NotFound, amqp.AccessRefused:
		exchange := m.Exchange
		if exchange == "" {
			exchange = "amq.default" // the broker's name for it in access checks
		}
		return strings.Contains(cause.Reason, "exchange '"+exchange+"' in vhost")
	case amqp.PreconditionFailed:
		return strings.Contains(cause.Reason, fmt.Sprintf("message size %d is larger", len(m.Body)))
	}
	return false
}

// largest returns the largest body that the broker takes, where it closed a channel for a
// larger one; 0 where it did not. Its text is "PRECONDITION_FAILED - message size 70000 is
// larger than configured max size 65536", or "... larger than max size 65536".
func largest(cause *amqp.Error) int64 {
	_, limit, ok := strings.Cut(cause.Reason, " is larger than ")
	at := strings.LastIndexByte(limit, ' ')
	if !ok || at < 0 || cause.Code != amqp.PreconditionFailed {
		return 0
	}
	n, err := strconv.ParseInt(limit[at+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// unknown is the outcome of a send whose channel ended before its confirm.
func unknown(code model.CauseCode, text string) model.Outcome {
	return model.Outcome{Kind: model.Unknown, Code: code, Text: model.CleanText(text)}
}

// closedWith is an outcome that the broker's close of a channel or connection leads to. The
// broker tells the right that it refused by its text alone.
func closedWith(kind model.OutcomeKind, code model.CauseCode, cause *amqp.Error, m *model.Message) model.Outcome {
	o := model.Outcome{Kind: kind, Code: code, Text: closeText(cause), Reply: cause.Code}
	switch {
	case cause.Code != amqp.AccessRefused:
	case !strings.Contains(cause.Reason, "access to topic '"):
		o.Refused = model.ExchangeRight
	case strings.Contains(cause.Reason, "access to topic '"+m.RoutingKey+"' in exchange"):
		o.Refused = model.TopicRight
	default:
		o.Refused = model.OtherTopicRight
	}
	return o
}

func closeText(e *amqp.Error) string {
	return model.CleanText(fmt.Sprintf("%d %s", e.Code, e.Reason))
}
