package dbtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/internal/proc"
)

// RedisServer is a private Redis that keeps nothing over Stop and Kill. It
// starts in milliseconds.
type RedisServer struct{ *Instance }

// StartRedis starts a private Redis and ends it, files and all, when the test
// ends.
func StartRedis(tb TB) *RedisServer {
	tb.Helper()
	return start(tb, func(ctx context.Context) (*RedisServer, error) { return NewRedis(ctx, "") })
}

// NewRedis is StartRedis for programs and TestMain. Its files are in a new
// folder under dir, "" for the system's temporary folder. The caller calls
// Close.
func NewRedis(ctx context.Context, dir string) (*RedisServer, error) {
	i, err := newInstance(dir, "redis", EnvRedisRoot)
	if err != nil {
		return nil, err
	}
	s := &RedisServer{Instance: i}
	i.spec, i.ready = s.spec, s.ping
	if err := s.boot(ctx); err != nil {
		err = fmt.Errorf("private redis: %w; next step: apt-get install redis-server", err)
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *RedisServer) spec() proc.Spec {
	path, err := s.root.Find("redis-server")
	if err != nil {
		path = "valkey-server" // the message of its start names what is missing
		if found, err := s.root.Find(path); err == nil {
			path = found
		}
	}
	return proc.Spec{
		Path: path, Root: s.root,
		Args: []string{
			"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		},
		Dir: s.dir, Output: s.path("redis.log"),
	}
}

func (s *RedisServer) ping(ctx context.Context) error {
	return s.with(func(c *redis.Client) error { return c.Ping(ctx).Err() })
}

// FlushAll deletes every key: what a failover to an empty replica looks like.
func (s *RedisServer) FlushAll(ctx context.Context) error {
	if err := s.with(func(c *redis.Client) error { return c.FlushAll(ctx).Err() }); err != nil {
		return fmt.Errorf("private redis: %w", err)
	}
	return nil
}

func (s *RedisServer) with(f func(*redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	return errors.Join(f(c), c.Close())
}
