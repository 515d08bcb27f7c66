package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/compensator/redislocker"
)

// redisDialTimeout is the client's own default.
const redisDialTimeout = 5 * time.Second

// redisOptions are the settings of the lock.
type redisOptions struct {
	url, urlFile string
	prefix       string
	slots        int
	ttl          time.Duration
	pause        bool
	tls          tlsOptions
}

func (o *redisOptions) bind(fs *pflag.FlagSet) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.url, "redis", "",
		"Redis `URL` of the replica set's lock, redis://user:password@host:6379/0 "+
			"(default none: claims alone keep replicas apart)")
	set.StringVar(&o.urlFile, "redis-file", "", "`file` with the --redis URL")
	o.tls.bind(fs, set, "redis", "Redis")
	set.StringVar(&o.prefix, "lock-prefix", redislocker.DefaultPrefix, "begin of the lock's keys in Redis")
	set.IntVar(&o.slots, "lock-slots", 1, "replicas that may run at a time, 1 to 64")
	set.DurationVar(&o.ttl, "lock-ttl", redislocker.DefaultTTL,
		"how long a lock outlives its holder, 300ms to 10m")
	set.BoolVar(&o.pause, "lock-pause", false, "pause while Redis is down, instead of going on by claims")
	fs.AddFlagSet(settings(set))
}

// locker returns the lock of the replica set, nil without Redis.
func (o *redisOptions) locker(a *app, log *slog.Logger) (compensator.Locker, func(), error) {
	none := func() {}
	url, err := oneSecret("redis", o.url, o.urlFile)
	if err != nil || url == "" {
		return nil, none, err
	}
	a.secrets.addURL(url)
	options, err := redis.ParseURL(url)
	if err != nil { // its text may quote the URL
		return nil, none, usagef("--redis must be redis://user:password@host:6379/0, special characters " +
			"percent-encoded")
	}
	if err := o.secure(options); err != nil {
		return nil, none, err
	}
	switch {
	case o.slots < 1 || o.slots > redislocker.MaxSlots:
		return nil, none, usagef("--lock-slots %d must be 1 to %d", o.slots, redislocker.MaxSlots)
	case o.ttl < redislocker.MinTTL || o.ttl > redislocker.MaxTTL:
		return nil, none, usagef("--lock-ttl %v must be %v to %v", o.ttl, redislocker.MinTTL,
			redislocker.MaxTTL)
	case o.prefix == "":
		return nil, none, usagef("--lock-prefix must not be empty")
	}
	logging.Disable() // the client's own log goes past ours; the locker says when Redis is down
	client := redis.NewClient(options)
	locker, err := redislocker.New(redislocker.Config{
		Client: client, Prefix: o.prefix, Slots: o.slots, TTL: o.ttl, PauseWhenDown: o.pause, Logger: log,
	})
	if err != nil {
		return nil, none, errors.Join(fmt.Errorf("--redis: %w", err), client.Close())
	}
	return locker, func() { _ = client.Close() }, nil // nothing is in flight any more
}

// secure makes the client read the files of TLS again at each dial.
func (o *redisOptions) secure(options *redis.Options) error {
	flag := o.tls.given()
	switch {
	case flag == "":
		return nil // rediss:// alone: the system's authorities, the host as the name
	case options.TLSConfig == nil:
		return usagef("--%s: the connection is plain; give a rediss:// URL", flag)
	}
	if err := o.tls.check(); err != nil {
		return err
	}
	timeout := options.DialTimeout
	if timeout == 0 {
		timeout = redisDialTimeout
	}
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		settings, err := o.tls.load(ctx)
		if err != nil {
			return nil, err
		}
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: settings}
		return dialer.DialContext(ctx, network, addr)
	}
	return nil
}
