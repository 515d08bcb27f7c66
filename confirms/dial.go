package confirms

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

const (
	heartbeat = 10 * time.Second
	keepalive = 15 * time.Second
)

// dialled is a connection after the AMQP handshake.
type dialled struct {
	addr     string
	conn     *amqp.Connection
	wire     *wire
	frameMax int
	login    login
}

// dial connects to one address within DialTimeout or ctx. The library gets an open
// socket and fields, never a URL: no error of it can hold a password.
func (c *Config) dial(ctx context.Context, addr string) (dialled, error) {
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	user, password, err := c.Credentials(ctx)
	if err != nil {
		return dialled{}, fmt.Errorf("get credentials: %w", err)
	}
	w, err := c.connect(ctx, addr)
	if err != nil {
		return dialled{}, withHint(fmt.Errorf("connect to %s: %w", addr, err), addr, c.TLS != nil)
	}
	// The library's handshake knows no context: its reads end with the socket.
	stop := context.AfterFunc(ctx, w.kill)
	conn, err := amqp.Open(w, amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Vhost:      c.VHost,
		Heartbeat:  heartbeat,
		Locale:     "en_US",
		Properties: amqp.Table{"product": "transmsg", "connection_name": c.Name},
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		w.kill()
		<-w.flushed
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return dialled{}, withHint(fmt.Errorf("open AMQP connection to %s: %w", addr, err), addr, c.TLS != nil)
	}
	frameMax := conn.Config.FrameSize
	if frameMax == 0 { // unlimited
		frameMax = model.DefaultFrameMax
	}
	return dialled{addr: addr, conn: conn, wire: w, frameMax: frameMax, login: login{user, password}}, nil
}

// connect opens the socket and, if wanted, TLS on it.
func (c *Config) connect(ctx context.Context, addr string) (*wire, error) {
	dialer := net.Dialer{KeepAlive: keepalive}
	tcp, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	sock := &socket{Conn: tcp, writeTimeout: c.WriteTimeout}
	if c.TLS == nil {
		return newWire(sock, sock), nil
	}
	secure, err := c.handshake(ctx, sock, addr)
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return newWire(secure, sock), nil
}

func (c *Config) handshake(ctx context.Context, sock *socket, addr string) (net.Conn, error) {
	given, err := c.TLS(ctx)
	if err != nil {
		return nil, fmt.Errorf("get TLS settings: %w", err)
	}
	settings := given.Clone() // nil is fine and becomes the defaults below
	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if settings.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		settings.ServerName = host
	}
	secure := tls.Client(sock, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return secure, nil
}
