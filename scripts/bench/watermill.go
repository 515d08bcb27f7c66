package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	wmsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/bench"
)

const (
	wmTopic = "outbox"
	wmTable = "watermill_outbox"
	// wmBatch is the forwarder's read batch, its default.
	wmBatch = 100
	// wmPoll is short, so that no run waits for it: the default is a second.
	wmPoll = 2 * time.Millisecond
)

// watermillPeer is Watermill's SQL publisher, whose messages its forwarder takes to its
// AMQP publisher with confirms on and pooled channels.
type watermillPeer struct {
	w       *bench.World
	sc      *bench.Schema
	db      *sql.DB
	schema  wmsql.SchemaAdapter
	offsets wmsql.OffsetsAdapter
	in      *wmsql.Publisher
	out     *wmamqp.Publisher
}

func openWatermill(ctx context.Context, w *bench.World) (contestant, error) {
	sc, err := w.NewSchema(ctx)
	if err != nil {
		return nil, err
	}
	p := &watermillPeer{w: w, sc: sc}
	// A payload column that is not checked as JSON is faster.
	if err := p.adapters(sc.Kind); err != nil {
		return nil, err
	}
	if p.db, err = sc.Fresh(peerConns); err != nil {
		return nil, err
	}
	log := watermill.NopLogger{}
	p.in, err = wmsql.NewPublisher(wmsql.BeginnerFromStdSQL(p.db),
		wmsql.PublisherConfig{SchemaAdapter: p.schema, AutoInitializeSchema: true}, log)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	url, err := w.Broker.URL(ctx)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	if p.out, err = wmamqp.NewPublisher(p.broker(url), log); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *watermillPeer) adapters(kind string) error {
	table := func(string) string { return wmTable }
	column := func(name string) func(string) string { return func(string) string { return name } }
	switch kind {
	case "mysql":
		p.schema = wmsql.MySQLQueueSchema{
			GenerateMessagesTableName: table, GeneratePayloadType: column("LONGBLOB"), SubscribeBatchSize: wmBatch,
		}
		p.offsets = wmsql.MySQLQueueOffsetsAdapter{DeleteOnAck: true, GenerateMessagesTableName: table}
	case "postgres":
		p.schema = wmsql.PostgreSQLQueueSchema{
			GenerateMessagesTableName: table, GeneratePayloadType: column("BYTEA"), SubscribeBatchSize: wmBatch,
		}
		p.offsets = wmsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true, GenerateMessagesTableName: table}
	default:
		return fmt.Errorf("watermill has no store for %s: choose mysql or postgres", kind)
	}
	return nil
}

// broker publishes persistent messages to the bench's exchange, each confirmed.
func (p *watermillPeer) broker(url string) wmamqp.Config {
	return wmamqp.Config{
		Connection: wmamqp.ConnectionConfig{AmqpURI: url},
		Marshaler: wmamqp.DefaultMarshaler{PostprocessPublishing: func(m amqp.Publishing) amqp.Publishing {
			m.MessageId, _ = m.Headers[wmamqp.DefaultMessageUUIDHeaderKey].(string)
			m.ContentType = "application/json"
			return m
		}},
		Exchange: wmamqp.ExchangeConfig{
			GenerateName: wmamqp.GenerateExchangeNameConstant(p.w.Broker.Exchange), Type: "direct", Durable: true,
		},
		Publish: wmamqp.PublishConfig{
			GenerateRoutingKey: func(string) string { return bench.Key }, ChannelPoolSize: 8, ConfirmDelivery: true,
		},
		TopologyBuilder: &wmamqp.DefaultTopologyBuilder{},
	}
}

func (*watermillPeer) name() string { return "Watermill, SQL and forwarder" }

func (p *watermillPeer) pool() *sql.DB { return p.db }

func (p *watermillPeer) close() error {
	var err error
	if p.out != nil {
		err = p.out.Close()
	}
	if p.in != nil {
		err = errors.Join(err, p.in.Close())
	}
	return errors.Join(err, p.db.Close())
}

// publish has the callers store while the forwarder runs.
func (p *watermillPeer) publish(ctx context.Context, callers, n int) (float64, error) {
	ids := newIDs(n)
	stop, err := p.forward(ctx)
	if err != nil {
		return 0, err
	}
	in := p.enveloping()
	p.sc.Rest(ctx)
	start := time.Now()
	err = each(callers, n, func(_, i int) error {
		return in.Publish(wmTopic, message.NewMessage(ids[i], p.w.Body))
	})
	if err == nil {
		err = p.emptied(ctx)
	}
	r := rate(n, start)
	if err := errors.Join(err, stop()); err != nil {
		return 0, err
	}
	return r, p.w.Check(ctx, values(ids))
}

// drain fills and then starts the forwarder.
func (p *watermillPeer) drain(ctx context.Context, n int) (float64, error) {
	ids := newIDs(n)
	in := p.enveloping()
	for rest := ids; len(rest) > 0; {
		var batch []*message.Message
		for _, id := range rest[:min(500, len(rest))] {
			batch = append(batch, message.NewMessage(id, p.w.Body))
		}
		if err := in.Publish(wmTopic, batch...); err != nil {
			return 0, err
		}
		rest = rest[len(batch):]
	}
	p.sc.Rest(ctx)
	start := time.Now()
	stop, err := p.forward(ctx)
	if err != nil {
		return 0, err
	}
	err = p.emptied(ctx)
	r := rate(n, start)
	if err := errors.Join(err, stop()); err != nil {
		return 0, err
	}
	return r, p.w.Check(ctx, values(ids))
}

func (p *watermillPeer) enveloping() message.Publisher {
	return forwarder.NewPublisher(p.in, forwarder.PublisherConfig{ForwarderTopic: wmTopic})
}

// forward starts a forwarder and returns once it runs; stop ends it.
func (p *watermillPeer) forward(ctx context.Context) (stop func() error, err error) {
	log := watermill.NopLogger{}
	noDeadline := time.Duration(0)
	sub, err := wmsql.NewSubscriber(wmsql.BeginnerFromStdSQL(p.db), wmsql.SubscriberConfig{
		SchemaAdapter: p.schema, OffsetsAdapter: p.offsets, InitializeSchema: true, PollInterval: wmPoll,
		AckDeadline: &noDeadline,
	}, log)
	if err != nil {
		return nil, err
	}
	f, err := forwarder.NewForwarder(sub, keepOpen{p.out}, log, forwarder.Config{ForwarderTopic: wmTopic})
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	select {
	case <-f.Running():
	case err := <-ended:
		return nil, errors.Join(errors.New("the forwarder did not start"), err)
	}
	return func() error { return errors.Join(f.Close(), <-ended, sub.Close()) }, nil
}

// keepOpen leaves the AMQP publisher open for the next run.
type keepOpen struct{ message.Publisher }

// Close implements message.Publisher.
func (keepOpen) Close() error { return nil }

// emptied waits until no row is left: each is deleted when its message is confirmed.
func (p *watermillPeer) emptied(ctx context.Context) error {
	return poll(ctx, "the forwarder", func() (bool, error) {
		var one int
		err := p.db.QueryRowContext(ctx, "SELECT 1 FROM "+wmTable+" LIMIT 1").Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return true, nil
		}
		return false, err
	})
}
