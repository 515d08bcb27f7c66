package demo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
)

// The demo's routing keys. Only the first is bound at the start.
const (
	keyPaid    = "order.paid"
	keyInvoice = "order.invoice" // bound in the middle of the demo
	keyNowhere = "order.nowhere" // never bound
	expires    = 10 * 60 * 1000  // ms: what a killed demo leaves behind goes by itself
)

// broker is the demo's own connection: its exchange and queue, and the consumer that
// counts what really arrives.
type broker struct {
	conn     *amqp.Connection
	ch       *amqp.Channel
	exchange string
	queue    string
	consumed sync.WaitGroup

	mu       sync.Mutex
	received map[string]int // deliveries by message id
}

// openBroker declares exchange and queue and starts the consumer.
func openBroker(ctx context.Context, cfg confirms.Config, suffix string) (*broker, error) {
	user, password, err := cfg.Credentials(ctx)
	if err != nil {
		return nil, err
	}
	dial := amqp.Config{
		Vhost: cfg.VHost, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Properties: amqp.Table{"connection_name": "transmsg-lab demo consumer"},
		Dial:       amqp.DefaultDial(cfg.DialTimeout),
	}
	scheme := "amqp"
	if cfg.TLS != nil {
		scheme = "amqps"
		if dial.TLSClientConfig, err = cfg.TLS(ctx); err != nil {
			return nil, err
		}
	}
	conn, err := amqp.DialConfig(scheme+"://"+cfg.Addrs[0], dial)
	if err != nil {
		return nil, fmt.Errorf("connect to RabbitMQ at %s: %w", cfg.Addrs[0], err)
	}
	name := "transmsg-demo-" + suffix
	b := &broker{conn: conn, exchange: name, queue: name, received: map[string]int{}}
	if err := b.declare(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return b, nil
}

func (b *broker) declare() error {
	var err error
	if b.ch, err = b.conn.Channel(); err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := b.ch.ExchangeDeclare(b.exchange, "direct", true, true, false, false, nil); err != nil {
		return fmt.Errorf("declare exchange %s: %w", b.exchange, err)
	}
	args := amqp.Table{"x-expires": int64(expires)}
	if _, err := b.ch.QueueDeclare(b.queue, true, false, false, false, args); err != nil {
		return fmt.Errorf("declare queue %s: %w", b.queue, err)
	}
	if err := b.bind(keyPaid); err != nil {
		return err
	}
	deliveries, err := b.ch.Consume(b.queue, "demo", true, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume from %s: %w", b.queue, err)
	}
	b.consumed.Go(func() {
		for d := range deliveries {
			b.mu.Lock()
			b.received[d.MessageId]++
			b.mu.Unlock()
		}
	})
	return nil
}

func (b *broker) bind(key string) error {
	if err := b.ch.QueueBind(b.queue, key, b.exchange, false, nil); err != nil {
		return fmt.Errorf("bind %s to %s: %w", b.queue, key, err)
	}
	return nil
}

// deliveries returns the deliveries so far by message id.
func (b *broker) deliveries() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.received)
}

// has reports how many of ids have arrived.
func (b *broker) has(ids map[string]bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for id := range ids {
		if b.received[id] > 0 {
			n++
		}
	}
	return n
}

// close deletes queue and exchange, unless they are kept, and ends the consumer.
func (b *broker) close(keep bool) error {
	var err error
	if !keep {
		if _, e := b.ch.QueueDelete(b.queue, false, false, false); e != nil {
			err = fmt.Errorf("delete queue %s: %w", b.queue, e)
		}
		if e := b.ch.ExchangeDelete(b.exchange, false, false); e != nil {
			err = errors.Join(err, fmt.Errorf("delete exchange %s: %w", b.exchange, e))
		}
	}
	err = errors.Join(err, b.conn.Close())
	b.consumed.Wait()
	return err
}

// through is cfg with the relay in between; TLS still checks the broker's own name.
func through(cfg confirms.Config, host, addr string) confirms.Config {
	cfg.Addrs = []string{addr}
	if inner := cfg.TLS; inner != nil {
		cfg.TLS = func(ctx context.Context) (*tls.Config, error) {
			c, err := inner(ctx)
			if err == nil && c.ServerName == "" {
				c = c.Clone()
				c.ServerName = host
			}
			return c, err
		}
	}
	return cfg
}
