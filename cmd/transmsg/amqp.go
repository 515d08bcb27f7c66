package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/confirms"
)

const defaultAMQP = "amqp://guest:guest@127.0.0.1:5672/"

// amqpOptions are the settings of the broker: one URL, or its parts, which need no
// percent-encoding.
type amqpOptions struct {
	url, urlFile           string
	addrs                  []string
	user                   string
	password, passwordFile string
	vhost                  string
	channels, window       int
	confirmTimeout         time.Duration
	dialTimeout            time.Duration
	secure                 bool
	tls                    tlsOptions
	fs                     *pflag.FlagSet
}

func (o *amqpOptions) bind(fs *pflag.FlagSet) {
	o.bindAddress(fs)
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.IntVar(&o.channels, "channels", confirms.DefaultChannels, "publishing channels, 1 to 16")
	set.IntVar(&o.window, "window", confirms.DefaultWindow, "unconfirmed messages per channel, 1 to 10000")
	set.DurationVar(&o.confirmTimeout, "confirm-timeout", confirms.DefaultConfirmTimeout,
		"after this without a confirm the outcome is unknown, at least 100ms")
	fs.AddFlagSet(settings(set))
}

// bindAddress has the settings of a connection that publishes nothing.
func (o *amqpOptions) bindAddress(fs *pflag.FlagSet) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.url, "amqp", defaultAMQP,
		"broker `URL`; special characters percent-encoded, or use the --amqp-... parts")
	set.StringVar(&o.urlFile, "amqp-file", "",
		"`file` with the --amqp URL; user and password are read again at each dial")
	set.StringSliceVar(&o.addrs, "amqp-addr", nil, "`host:port` of each broker of one cluster, instead of --amqp")
	set.StringVar(&o.user, "amqp-user", "guest", "user, with --amqp-addr")
	set.StringVar(&o.password, "amqp-password", "", "password as it is, with --amqp-addr")
	set.StringVar(&o.passwordFile, "amqp-password-file", "", "`file` with the password, read again at each dial")
	set.StringVar(&o.vhost, "amqp-vhost", "/", "virtual host as it is, with --amqp-addr")
	set.BoolVar(&o.secure, "amqp-tls", false, "speak TLS, with --amqp-addr; with --amqp, an amqps:// URL does")
	o.tls.bind(fs, set, "amqp", "the broker")
	set.DurationVar(&o.dialTimeout, "dial-timeout", confirms.DefaultDialTimeout,
		"bound of one connection attempt, at least 100ms")
	o.fs = fs
	fs.AddFlagSet(settings(set))
}

// config turns the settings into the engine's Config.
func (o *amqpOptions) config(a *app, name string, log *slog.Logger) (confirms.Config, error) {
	cfg, err := o.address(a)
	if err != nil {
		return cfg, err
	}
	if cfg.TLS, err = o.secured(cfg.TLS != nil); err != nil {
		return cfg, err
	}
	switch {
	case o.channels < 1:
		return cfg, usagef("--channels %d must be 1 to 16", o.channels)
	case o.window < 1:
		return cfg, usagef("--window %d must be 1 to 10000", o.window)
	case o.confirmTimeout <= 0:
		return cfg, usagef("--confirm-timeout %v must be at least 100ms", o.confirmTimeout)
	case o.dialTimeout <= 0:
		return cfg, usagef("--dial-timeout %v must be at least 100ms", o.dialTimeout)
	}
	cfg.Name, cfg.Logger = name, log
	cfg.Channels, cfg.Window = o.channels, o.window
	cfg.MaxPending = max(confirms.DefaultMaxPending, o.window)
	cfg.ConfirmTimeout, cfg.DialTimeout = o.confirmTimeout, o.dialTimeout
	return cfg, nil
}

// address is where and as whom to connect.
func (o *amqpOptions) address(a *app) (confirms.Config, error) {
	a.secrets.addURL(o.url)
	a.secrets.add(o.password)
	parts := o.given("amqp-addr", "amqp-user", "amqp-password", "amqp-password-file", "amqp-vhost", "amqp-tls")
	whole := o.given("amqp", "amqp-file")
	switch {
	case parts != "" && whole != "":
		return confirms.Config{}, usagef("--%s and --%s: give the URL or its parts, not both", whole, parts)
	case o.url != defaultAMQP && o.urlFile != "":
		return confirms.Config{}, usagef("--amqp and --amqp-file: give one of them")
	case o.password != "" && o.passwordFile != "":
		return confirms.Config{}, usagef("--amqp-password and --amqp-password-file: give one of them")
	case o.urlFile != "":
		return o.fromFile(a)
	case parts != "":
		return o.fromParts(a)
	}
	cfg, err := confirms.ParseURL(o.url)
	if err != nil {
		return cfg, usagef("--amqp: %w", err)
	}
	return cfg, nil
}

// secured returns how to get the settings of TLS, nil for a plain connection.
func (o *amqpOptions) secured(byURL bool) (func(context.Context) (*tls.Config, error), error) {
	if !byURL && !o.secure {
		if flag := o.tls.given(); flag != "" {
			return nil, usagef("--%s: the connection is plain; give an amqps:// URL, or --amqp-tls with --amqp-addr",
				flag)
		}
		return nil, nil
	}
	return o.tls.load, o.tls.check()
}

// given returns the first of the settings that was given, from whatever source.
func (o *amqpOptions) given(names ...string) string {
	for _, name := range names {
		if o.fs.Changed(name) {
			return name
		}
	}
	return ""
}

func (o *amqpOptions) fromFile(a *app) (confirms.Config, error) {
	read := func() (confirms.Config, error) {
		s, err := oneSecret("amqp", "", o.urlFile)
		if err != nil {
			return confirms.Config{}, err
		}
		a.secrets.addURL(s)
		cfg, err := confirms.ParseURL(s)
		if err != nil {
			return cfg, usagef("--amqp-file: %w", err)
		}
		return cfg, nil
	}
	cfg, err := read()
	if err != nil {
		return cfg, err
	}
	// Rotation changes user and password; a new address needs a restart.
	cfg.Credentials = func(ctx context.Context) (string, string, error) {
		now, err := read()
		if err != nil {
			return "", "", err
		}
		return now.Credentials(ctx)
	}
	return cfg, nil
}

func (o *amqpOptions) fromParts(a *app) (confirms.Config, error) {
	cfg := confirms.Config{Addrs: o.addrs, VHost: o.vhost}
	if len(cfg.Addrs) == 0 {
		cfg.Addrs = []string{"127.0.0.1:5672"}
		if o.secure {
			cfg.Addrs = []string{"127.0.0.1:5671"}
		}
	}
	if o.vhost == "" {
		return cfg, usagef("--amqp-vhost must not be empty; the default virtual host is /")
	}
	password := o.password
	if o.given("amqp-user", "amqp-password", "amqp-password-file") == "" {
		password = "guest"
	}
	if o.passwordFile != "" {
		if _, err := readSecret("amqp-password-file", o.passwordFile); err != nil {
			return cfg, usagef("%w", err)
		}
	}
	cfg.Credentials = func(context.Context) (string, string, error) {
		if o.passwordFile == "" {
			return o.user, password, nil
		}
		s, err := readSecret("amqp-password-file", o.passwordFile)
		a.secrets.add(s)
		return o.user, s, err
	}
	return cfg, nil
}

// waitReady waits for the broker for at most the given time. Being late is not fatal:
// messages are stored and sent later; the caller says so.
func waitReady(ctx context.Context, s *confirms.Sender, addrs []string, atMost time.Duration) error {
	if atMost == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	err := s.WaitReady(ctx)
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return nil
	case s.LastError() != nil:
		return s.LastError()
	}
	for _, addr := range addrs {
		if hint := confirms.PortHint(addr); hint != "" {
			return errors.New("no answer yet (" + hint + ")")
		}
	}
	return errors.New("no answer yet")
}
