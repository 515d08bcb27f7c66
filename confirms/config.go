package confirms

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/transmsg/transmsg/internal/broker"
)

// Defaults and bounds of [Config].
const (
	DefaultChannels        = 1
	DefaultWindow          = 1000
	DefaultWindowBytes     = 16 << 20
	DefaultMaxPending      = 8192
	DefaultMaxPendingBytes = 64 << 20
	DefaultConfirmTimeout  = 15 * time.Second
	DefaultWriteTimeout    = 5 * time.Second
	DefaultDialTimeout     = 10 * time.Second
	DefaultProbeDelay      = time.Second
	DefaultForgetRefusals  = 15 * time.Minute

	maxChannels   = 16
	maxWindow     = 10_000
	maxPendingCap = 1 << 20
)

// Config describes a [Sender]. The zero value of a field means its default;
// Addrs and Credentials have none.
type Config struct {
	// Addrs are the "host:port" of the brokers of one cluster, a port from 1 to 65535 or
	// its name. They are tried in turn, starting with a random one.
	Addrs []string
	// VHost is the virtual host, not percent-encoded, at most 255 bytes of UTF-8. Defaults
	// to "/".
	VHost string
	// Credentials returns user and password. It is asked at every dial, so that a rotated
	// password is found, and on an open connection when three quarters of a token's life are
	// over, each minute, and when the broker refuses the login: a new password of the same user
	// is then given to the broker without a new connection. ctx ends with DialTimeout.
	Credentials func(ctx context.Context) (user, password string, err error)
	// TLS returns the TLS settings and is asked at every dial; what it returns is
	// cloned. An empty ServerName means the host dialled. Nil means plain AMQP.
	TLS func(ctx context.Context) (*tls.Config, error)
	// Name is shown as the connection's name in the management UI. Defaults to
	// "transmsg".
	Name string
	// Channels is the number of publishing channels, 1 to 16. Defaults to 1, which is
	// as fast as the broker.
	Channels int
	// Window is the most unconfirmed messages on one channel, 1 to 10,000. Defaults to
	// 1000.
	Window int
	// WindowBytes is the most unconfirmed body bytes on one channel; a larger body goes
	// when it is alone. Defaults to 16 MiB.
	WindowBytes int64
	// MaxPending is the most messages reserved or sent and not yet done, at least
	// Window. Defaults to 8192.
	MaxPending int
	// MaxPendingBytes is the same in body bytes, at least WindowBytes: no single
	// message may be larger. Defaults to 64 MiB.
	MaxPendingBytes int64
	// ConfirmTimeout is how long a confirm may take before the outcome is unknown. It
	// stands still while the broker blocks the connection: a send that was out when the
	// alarm came stays open for as long as that lasts. Defaults to 15 s; at least 100 ms.
	ConfirmTimeout time.Duration
	// WriteTimeout is how long the socket may take no byte before the connection is
	// given up. Defaults to 5 s; at least 100 ms.
	WriteTimeout time.Duration
	// DialTimeout bounds one dial with TLS and AMQP handshake. Defaults to 10 s; at
	// least 100 ms.
	DialTimeout time.Duration
	// TrySuspects opens a second connection for a moment once the first is there, so that a
	// limit that forbids it is known before a message needs it: see [Sender.SuspectsError].
	TrySuspects bool
	// ProbeDelay is the wait for the first probe of an exchange that the broker refuses, or
	// of a route that it does not confirm. It doubles with each probe that fails, up to a
	// minute. Defaults to 1 s; from 1 ms to a minute.
	ProbeDelay time.Duration
	// ForgetRefusals is how long a refused exchange is remembered for which no message comes.
	// Longer than rows wait for their next try. Defaults to 15 min; at least 1 s.
	ForgetRefusals time.Duration
	// Logger gets state changes, never one line per message. Nil is slog.Default().
	Logger *slog.Logger
	// Observers hear of state changes and answers, in their order.
	Observers []Observer

	observer Observer // calls each of Observers
}

func (c Config) withDefaults() Config {
	setDefault(&c.VHost, "/")
	setDefault(&c.Name, "transmsg")
	setDefault(&c.Channels, DefaultChannels)
	setDefault(&c.Window, DefaultWindow)
	setDefault(&c.WindowBytes, DefaultWindowBytes)
	setDefault(&c.MaxPending, DefaultMaxPending)
	setDefault(&c.MaxPendingBytes, DefaultMaxPendingBytes)
	setDefault(&c.ConfirmTimeout, DefaultConfirmTimeout)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	setDefault(&c.DialTimeout, DefaultDialTimeout)
	setDefault(&c.ProbeDelay, DefaultProbeDelay)
	setDefault(&c.ForgetRefusals, DefaultForgetRefusals)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.observer = joined(c.Observers)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// settings is what a dial needs of the config.
func (c *Config) settings() broker.Settings {
	return broker.Settings{
		Addrs: c.Addrs, VHost: c.VHost, Credentials: c.Credentials, TLS: c.TLS, Name: c.Name,
		WriteTimeout: c.WriteTimeout, DialTimeout: c.DialTimeout,
	}
}

// validate checks a config with defaults as a whole.
func (c Config) validate() error {
	address := c.settings()
	if err := address.Check("confirms: config"); err != nil {
		return err
	}
	for _, f := range [...]struct {
		name          string
		value, lo, hi int64
	}{
		{"Channels", int64(c.Channels), 1, maxChannels},
		{"Window", int64(c.Window), 1, maxWindow},
		{"WindowBytes", c.WindowBytes, 1, 1 << 40},
		{"MaxPending", int64(c.MaxPending), int64(c.Window), maxPendingCap},
		{"MaxPendingBytes", c.MaxPendingBytes, c.WindowBytes, 1 << 40},
	} {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("confirms: config: %s %d must be from %d to %d", f.name, f.value, f.lo, f.hi)
		}
	}
	for _, f := range [...]struct {
		name  string
		value time.Duration
	}{
		{"ConfirmTimeout", c.ConfirmTimeout}, {"WriteTimeout", c.WriteTimeout}, {"DialTimeout", c.DialTimeout},
	} {
		if f.value < minTimeout {
			return fmt.Errorf("confirms: config: %s %s must be at least %s", f.name, f.value, minTimeout)
		}
	}
	switch {
	case c.ProbeDelay < time.Millisecond || c.ProbeDelay > time.Minute:
		return fmt.Errorf("confirms: config: ProbeDelay %s must be from 1ms to 1m", c.ProbeDelay)
	case c.ForgetRefusals < time.Second:
		return fmt.Errorf("confirms: config: ForgetRefusals %s must be at least 1s", c.ForgetRefusals)
	}
	return nil
}

const minTimeout = 100 * time.Millisecond
