package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

const (
	heartbeat = 10 * time.Second
	keepalive = 15 * time.Second
)

// Settings say where to connect and as whom. Zero timeouts are no timeouts: the owner sets them.
type Settings struct {
	Addrs       []string // host:port
	VHost       string
	Credentials func(ctx context.Context) (user, password string, err error)
	TLS         func(ctx context.Context) (*tls.Config, error) // nil is plain AMQP
	Name        string
	// Raw keeps the properties of deliveries as they came, in Dialled.Raw, and from the library.
	Raw bool
	// WriteTimeout bounds a write that makes no progress, DialTimeout one dial with its handshakes.
	WriteTimeout, DialTimeout time.Duration
}

// Dialled is a connection after the AMQP handshake. Its owner kills the Wire and waits for Wire.Flushed.
type Dialled struct {
	Addr     string
	Conn     *amqp.Connection
	Wire     *Wire
	FrameMax int
	Login    Login
	Raw      *RawProperties // nil without Settings.Raw
}

const maxVHost = 255 // an AMQP short string

// Check says which of the settings is wrong, or nil. where begins the text. Values that may hold a password by mistake
// (Addrs) are not printed.
func (s *Settings) Check(where string) error {
	if len(s.Addrs) == 0 {
		return fmt.Errorf("%s: Addrs is empty: give at least one host:port", where)
	}
	for i, a := range s.Addrs {
		host, port, err := net.SplitHostPort(a)
		if err != nil || host == "" || port == "" {
			return fmt.Errorf("%s: Addrs[%d] must be host:port (a URL goes through ParseURL)", where, i)
		}
		if n, err := strconv.Atoi(port); err == nil && (n < 1 || n > math.MaxUint16) {
			return fmt.Errorf("%s: Addrs[%d]: port %d must be from 1 to %d", where, i, n, math.MaxUint16)
		}
	}
	if len(s.VHost) > maxVHost || !utf8.ValidString(s.VHost) {
		return fmt.Errorf("%s: VHost of %d bytes must be at most %d of UTF-8", where, len(s.VHost), maxVHost)
	}
	if s.Credentials == nil {
		return fmt.Errorf("%s: Credentials is nil: give a func that returns user and password", where)
	}
	return nil
}

// Dial connects to one address within DialTimeout or ctx. The library gets an open
// socket and fields, never a URL: no error of it can hold a password.
func (s *Settings) Dial(ctx context.Context, addr string) (Dialled, error) {
	ctx, cancel := context.WithTimeout(ctx, s.DialTimeout)
	defer cancel()
	user, password, err := s.Credentials(ctx)
	if err != nil {
		return Dialled{}, fmt.Errorf("get credentials: %w", err)
	}
	w, err := s.connect(ctx, addr)
	if err != nil {
		return Dialled{}, withHint(fmt.Errorf("connect to %s: %w", addr, err), addr, s.TLS != nil)
	}
	// The library's handshake knows no context: its reads end with the socket.
	stop := context.AfterFunc(ctx, w.Kill)
	var under io.ReadWriteCloser = w
	var raw *RawProperties
	if s.Raw {
		c := newRawConn(w)
		under, raw = c, c.kept
	}
	conn, err := amqp.Open(under, amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}},
		Vhost:      s.VHost,
		Heartbeat:  heartbeat,
		Locale:     "en_US",
		Properties: amqp.Table{"product": "transmsg", "connection_name": s.Name},
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		w.Kill()
		<-w.Flushed
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return Dialled{}, withHint(fmt.Errorf("open AMQP connection to %s: %w", addr, err), addr, s.TLS != nil)
	}
	frameMax := conn.Config.FrameSize
	if frameMax == 0 { // unlimited
		frameMax = model.DefaultFrameMax
	}
	return Dialled{Addr: addr, Conn: conn, Wire: w, FrameMax: frameMax, Login: Login{user, password}, Raw: raw}, nil
}

// connect opens the socket and, if wanted, TLS on it.
func (s *Settings) connect(ctx context.Context, addr string) (*Wire, error) {
	dialer := net.Dialer{KeepAlive: keepalive}
	tcp, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	sock := &socket{Conn: tcp, writeTimeout: s.WriteTimeout}
	if s.TLS == nil {
		return newWire(sock, sock), nil
	}
	secure, err := s.handshake(ctx, sock, addr)
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return newWire(secure, sock), nil
}

func (s *Settings) handshake(ctx context.Context, sock *socket, addr string) (net.Conn, error) {
	given, err := s.TLS(ctx)
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
