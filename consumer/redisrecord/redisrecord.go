// Package redisrecord keeps the records of effect.Outside on Redis or Valkey: "processing" with a lease, then "done".
package redisrecord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/consumer/effect"
)

// DefaultPrefix begins the keys on Redis.
const DefaultPrefix = "transmsg:effect:"

const (
	done       = "done"
	processing = "processing:"
)

// Client is what is called of go-redis: *redis.Client and *redis.ClusterClient are one.
type Client interface {
	redis.Scripter
	Set(ctx context.Context, key string, value any, expiration time.Duration) *redis.StatusCmd
}

// Records implements [effect.Records]. It is safe for concurrent use.
//
// Redis replicates without waiting: a fail-over may lose a record, and then the provider's idempotency key alone
// keeps the effect single. Its keys must not be evicted: set maxmemory-policy noeviction.
type Records struct {
	client Client
	prefix string
}

var _ effect.Records = (*Records)(nil)

// New keeps records through client, which stays the caller's to close, under keys that begin with prefix; empty is
// [DefaultPrefix].
func New(client Client, prefix string) (*Records, error) {
	if client == nil {
		return nil, errors.New("redisrecord: the client is nil")
	}
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return &Records{client, prefix}, nil
}

var (
	// begin answers 0 begun, 1 held, 2 done.
	begin = redis.NewScript(`
local have = redis.call('GET', KEYS[1])
if have == 'done' then return 2 end
if have and have ~= ARGV[1] then return 1 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0`)
	extend = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	release = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// Begin implements [effect.Records].
func (r *Records) Begin(ctx context.Context, key, token string, lease time.Duration) (effect.RecordState, error) {
	n, err := begin.Run(ctx, r.client, []string{r.prefix + key}, processing+token, lease.Milliseconds()).Int()
	if err != nil {
		return effect.RecordHeld, fmt.Errorf("redisrecord: begin: %w", err)
	}
	return [...]effect.RecordState{effect.RecordBegun, effect.RecordHeld, effect.RecordDone}[n], nil
}

// Extend implements [effect.Records].
func (r *Records) Extend(ctx context.Context, key, token string, lease time.Duration) (bool, error) {
	n, err := extend.Run(ctx, r.client, []string{r.prefix + key}, processing+token, lease.Milliseconds()).Int()
	if err != nil {
		return false, fmt.Errorf("redisrecord: extend: %w", err)
	}
	return n == 1, nil
}

// Done implements [effect.Records].
func (r *Records) Done(ctx context.Context, key string, keep time.Duration) error {
	if err := r.client.Set(ctx, r.prefix+key, done, keep).Err(); err != nil {
		return fmt.Errorf("redisrecord: done: %w", err)
	}
	return nil
}

// Release implements [effect.Records].
func (r *Records) Release(ctx context.Context, key, token string) error {
	if err := release.Run(ctx, r.client, []string{r.prefix + key}, processing+token).Err(); err != nil {
		return fmt.Errorf("redisrecord: release: %w", err)
	}
	return nil
}
