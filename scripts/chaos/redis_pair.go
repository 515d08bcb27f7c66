package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/faultproxy"
)

// openSpareRedis gives the Redis of a run with fail-overs a replica, and an address that moves.
func (w *world) openSpareRedis(ctx context.Context) (err error) {
	if w.mode != modeFailover {
		return nil
	}
	if w.spare, err = dbtest.NewRedis(ctx, ""); err != nil {
		return err
	}
	w.later(w.spare.Close)
	if w.redisAddress, err = faultproxy.New(w.redis.Addr()); err != nil {
		return err
	}
	w.later(w.redisAddress.Close)
	return w.followRedis(ctx)
}

// redisAddr is where the processes find Redis.
func (w *world) redisAddr() string {
	if w.redisAddress != nil {
		return w.redisAddress.Addr()
	}
	return w.redis.Addr()
}

// followRedis makes the spare a replica and waits until it is in step.
func (w *world) followRedis(ctx context.Context) error {
	host, port, _ := strings.Cut(w.redis.Addr(), ":")
	if err := redisDo(ctx, w.spare, "REPLICAOF", host, port); err != nil {
		return err
	}
	return until(ctx, time.Minute, "the replica of Redis is in step", func() bool {
		return strings.Contains(redisInfo(ctx, w.spare), "master_link_status:up")
	})
}

// redisPromoted kills Redis, makes its replica the primary and moves the address there: a
// lock that was not replicated yet is lost. The old one comes back as the replica.
func redisPromoted(ctx context.Context, f *fault) (proof, error) {
	if err := f.redis.Kill(); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "compensators without their lock", f.events(wordRedis, "does not answer"))
	if err != nil {
		return p, errors.Join(err, f.redis.Start(context.WithoutCancel(ctx)))
	}
	if err := redisDo(ctx, f.spare, "REPLICAOF", "NO", "ONE"); err != nil {
		return p, err
	}
	f.redisAddress.Aim(f.spare.Addr())
	f.redisAddress.Cut(true)
	f.world.redis, f.world.spare = f.spare, f.redis
	if err := f.spare.Start(context.WithoutCancel(ctx)); err != nil {
		return p, err
	}
	if !strings.Contains(redisInfo(ctx, f.redis), "role:master") {
		p.Count = 0 // nothing was promoted
	}
	return p, f.followRedis(ctx)
}

func redisDo(ctx context.Context, s *dbtest.RedisServer, words ...any) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer c.Close()
	if err := c.Do(ctx, words...).Err(); err != nil {
		return fmt.Errorf("redis: %v: %w", words, err)
	}
	return nil
}

func redisInfo(ctx context.Context, s *dbtest.RedisServer) string {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer c.Close()
	text, err := c.Info(ctx, "replication").Result()
	if err != nil {
		return err.Error()
	}
	return text
}
