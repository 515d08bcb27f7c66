package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
)

const (
	// Key is the one bound routing key.
	Key = "bench"
	// leftovers of a run that was killed expire after this, in milliseconds.
	queueExpires = 30 * 60 * 1000
	// consumeStall is how long the check of the queue waits for the next message.
	consumeStall = 30 * time.Second
)

// Broker is the run's own exchange and queue on the broker given, and a connection of
// the bench's own to look into it.
type Broker struct {
	// Exchange is a durable direct exchange; [Key] routes to Queue.
	Exchange string
	Queue    string

	cfg  confirms.Config
	conn *amqp.Connection
}

// openBroker declares exchange and queue with random names.
func openBroker(ctx context.Context, cfg confirms.Config, queueType string) (*Broker, error) {
	name := "transmsg-bench-" + strings.ToLower(rand.Text()[:16])
	b := &Broker{Exchange: name, Queue: name, cfg: cfg}
	var err error
	if b.conn, err = b.Dial(ctx); err != nil {
		return nil, err
	}
	if err := b.declare(queueType); err != nil {
		return nil, errors.Join(err, b.conn.Close())
	}
	return b, nil
}

func (b *Broker) declare(queueType string) error {
	ch, err := b.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := ch.ExchangeDeclare(b.Exchange, "direct", true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare exchange %s: %w", b.Exchange, err)
	}
	args := amqp.Table{"x-queue-type": queueType, "x-expires": int64(queueExpires)}
	if _, err := ch.QueueDeclare(b.Queue, true, false, false, false, args); err != nil {
		return fmt.Errorf("declare %s queue %s: %w", queueType, b.Queue, err)
	}
	if err := ch.QueueBind(b.Queue, Key, b.Exchange, false, nil); err != nil {
		return fmt.Errorf("bind queue %s: %w", b.Queue, err)
	}
	return ch.Close()
}

// Dial opens another connection, as the user and to the virtual host given. The caller
// closes it.
func (b *Broker) Dial(ctx context.Context) (*amqp.Connection, error) {
	user, password, err := b.cfg.Credentials(ctx)
	if err != nil {
		return nil, err
	}
	dial := amqp.Config{
		Vhost: b.vhost(), SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Properties: amqp.Table{"connection_name": "transmsg-lab bench"}, Dial: amqp.DefaultDial(10 * time.Second),
	}
	scheme := "amqp"
	if b.cfg.TLS != nil {
		scheme = "amqps"
		if dial.TLSClientConfig, err = b.cfg.TLS(ctx); err != nil {
			return nil, err
		}
	}
	conn, err := amqp.DialConfig(scheme+"://"+b.cfg.Addrs[0], dial)
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ at %s: %w", b.cfg.Addrs[0], err)
	}
	return conn, nil
}

// Tally is what the queue held against what was published.
type Tally struct {
	Lost    int // published and not in the queue
	Repeats int // deliveries beyond the first of an id
	Unknown int // deliveries of ids that were never published
}

// Err is nil when each message was there once.
func (t Tally) Err() error {
	if t == (Tally{}) {
		return nil
	}
	return fmt.Errorf("the queue does not hold what was published: lost %d, repeats %d, unknown %d",
		t.Lost, t.Repeats, t.Unknown)
}

// Check empties the queue and holds it against the ids published. A marker published
// behind everything else ends it, so that nothing is waited for and a repeat at the end
// is seen. Call it when everything was confirmed.
func (b *Broker) Check(ctx context.Context, published iter.Seq[string]) (Tally, error) {
	seen := map[uuid.UUID]bool{}
	for id := range published {
		key, err := uuid.Parse(id)
		if err != nil {
			return Tally{}, fmt.Errorf("check the queue: published id: %w", err)
		}
		seen[key] = false
	}
	ch, err := b.conn.Channel()
	if err != nil {
		return Tally{}, fmt.Errorf("check the queue: %w", err)
	}
	defer ch.Close()
	marker, err := b.mark(ctx, ch)
	if err != nil {
		return Tally{}, fmt.Errorf("check the queue: %w", err)
	}
	if err := ch.Qos(2000, 0, false); err != nil {
		return Tally{}, fmt.Errorf("check the queue: %w", err)
	}
	deliveries, err := ch.Consume(b.Queue, marker, false, false, false, false, nil)
	if err != nil {
		return Tally{}, fmt.Errorf("check the queue: %w", err)
	}
	tally, err := count(ctx, deliveries, marker, seen)
	return tally, err
}

// mark publishes a marker to the queue and waits for its confirm.
func (b *Broker) mark(ctx context.Context, ch *amqp.Channel) (string, error) {
	if err := ch.Confirm(false); err != nil {
		return "", err
	}
	marker := "marker-" + uuid.NewString()
	dc, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", b.Queue, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: marker,
	})
	if err != nil {
		return "", err
	}
	if ok, err := dc.WaitContext(ctx); err != nil || !ok {
		return "", errors.Join(err, errors.New("the marker was not confirmed"))
	}
	return marker, nil
}

// count takes deliveries until the marker. Acks are multiple: one each 500 messages.
func count(
	ctx context.Context, deliveries <-chan amqp.Delivery, marker string, seen map[uuid.UUID]bool,
) (Tally, error) {
	var t Tally
	stall := time.NewTimer(consumeStall)
	defer stall.Stop()
	for n := 1; ; n++ {
		var d amqp.Delivery
		var open bool
		select {
		case d, open = <-deliveries:
		case <-stall.C:
			return t, fmt.Errorf("check the queue: no message for %v", consumeStall)
		case <-ctx.Done():
			return t, ctx.Err()
		}
		if !open {
			return t, errors.New("check the queue: the consumer was cancelled")
		}
		if d.MessageId == marker || n%500 == 0 {
			if err := d.Ack(true); err != nil {
				return t, fmt.Errorf("check the queue: %w", err)
			}
			stall.Reset(consumeStall)
		}
		if d.MessageId == marker {
			break
		}
		t.add(d.MessageId, seen)
	}
	for _, there := range seen {
		if !there {
			t.Lost++
		}
	}
	return t, nil
}

func (t *Tally) add(id string, seen map[uuid.UUID]bool) {
	key, err := uuid.Parse(id)
	there, known := seen[key]
	switch {
	case err != nil || !known:
		t.Unknown++
	case there:
		t.Repeats++
	default:
		seen[key] = true
	}
}

// close deletes exchange and queue, also after ctx has ended.
func (b *Broker) close() error {
	ch, err := b.conn.Channel()
	if err == nil {
		_, e1 := ch.QueueDelete(b.Queue, false, false, false)
		err = errors.Join(e1, ch.ExchangeDelete(b.Exchange, false, false))
	}
	if err != nil {
		err = fmt.Errorf("delete exchange and queue %s: %w", b.Queue, err)
	}
	return errors.Join(err, b.conn.Close())
}

// URL is the broker's address with user and password, for contestants that take nothing
// else. TLS settings of the run's own are not in it. Never print it.
func (b *Broker) URL(ctx context.Context) (string, error) {
	user, password, err := b.cfg.Credentials(ctx)
	if err != nil {
		return "", err
	}
	scheme := "amqp"
	if b.cfg.TLS != nil {
		scheme = "amqps"
	}
	u := url.URL{Scheme: scheme, User: url.UserPassword(user, password), Host: b.cfg.Addrs[0]}
	return u.String() + "/" + url.PathEscape(b.vhost()), nil
}

func (b *Broker) vhost() string {
	if b.cfg.VHost == "" {
		return "/"
	}
	return b.cfg.VHost
}
