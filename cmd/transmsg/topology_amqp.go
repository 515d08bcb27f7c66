package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	dial "github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/topology"
)

// closeGrace bounds how long the end of a connection may take.
const closeGrace = 2 * time.Second

// readAMQP asks by passive declares.
func (o *topologyCheck) readAMQP(ctx context.Context, a *app, plan *topology.Plan) (*topology.Broker, error) {
	cfg, err := o.amqp.address(a)
	if err != nil {
		return nil, err
	}
	if cfg.TLS, err = o.amqp.secured(cfg.TLS != nil); err != nil {
		return nil, err
	}
	if cfg.VHost != plan.VHost {
		return nil, usagef("the broker's address is of virtual host %q, the topology file of %q: change one of "+
			"them, or give --vhost",
			cfg.VHost, plan.VHost)
	}
	to := dial.Settings{
		Addrs: cfg.Addrs, VHost: cfg.VHost, Credentials: cfg.Credentials, TLS: cfg.TLS, Name: "transmsg topology check",
		WriteTimeout: o.amqp.dialTimeout, DialTimeout: o.amqp.dialTimeout,
	}
	conn, err := dialAny(ctx, to)
	if err != nil {
		return nil, err
	}
	defer conn.CloseGracefully(closeGrace)
	// The library's calls know no context: they end with the socket.
	defer context.AfterFunc(ctx, conn.Wire.Kill)()
	return topology.ReadPassive(ctx, passive{conn.Conn}, plan)
}

// dialAny tries each address once.
func dialAny(ctx context.Context, s dial.Settings) (dial.Dialled, error) {
	var errs []error
	for _, addr := range s.Addrs {
		d, err := s.Dial(ctx, addr)
		if err == nil {
			return d, nil
		}
		errs = append(errs, err)
	}
	return dial.Dialled{}, errors.Join(errs...)
}

// passive declares over one connection, each on a channel of its own: what is missing closes it.
type passive struct{ conn *amqp.Connection }

// Exchange implements topology.Passive.
func (p passive) Exchange(_ context.Context, name string) (bool, error) {
	return p.exists(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil)
	})
}

// Queue implements topology.Passive.
func (p passive) Queue(_ context.Context, name string) (bool, error) {
	return p.exists(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
}

// Version implements topology.Passive.
func (p passive) Version() string {
	version, _ := p.conn.Properties["version"].(string)
	return version
}

func (p passive) exists(declare func(*amqp.Channel) error) (bool, error) {
	ch, err := p.conn.Channel()
	if err != nil {
		return false, fmt.Errorf("open channel: %w", err)
	}
	err = declare(ch)
	var closed *amqp.Error
	switch {
	case err == nil:
		return true, ch.Close()
	case errors.As(err, &closed) && closed.Server && closed.Code == amqp.NotFound:
		return false, nil // that closed the channel
	case errors.As(err, &closed) && closed.Server && closed.Code == amqp.AccessRefused: // since RabbitMQ 4.3
		return false, fmt.Errorf("%w: %s", topology.ErrHidden, closed.Reason)
	case errors.As(err, &closed) && closed.Server && closed.Code == amqp.ResourceLocked:
		return true, nil // somebody's exclusive queue
	}
	return false, err
}
