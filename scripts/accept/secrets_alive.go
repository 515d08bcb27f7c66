package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
)

// alive runs a compensator whose secrets are all right, and takes from it, one after the
// other, broker, rights, Redis and database.
func (s *secrets) alive(ctx context.Context) error {
	c, err := s.runner(ctx)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
		says string // what the log shows then, in one of these words
	}{
		{"messages that fail", c.failing, "312"},
		{"a webhook that fails", c.hookFails, "not delivered"},
		{"a webhook that hangs", c.hookHangs, "not delivered"},
		{"alerts at last", c.hookWorks, ""},
		{"the broker closes connections", func(context.Context) error { return s.node.CloseAllConnections() }, "320"},
		{"another password in the file", c.rotate, "403|refused"},
		{"the right one again", c.rotateBack, "connected"},
		{"the broker down", func(context.Context) error { return s.node.Stop() }, "connection refused|dial"},
		{"the broker back", s.node.Start, "connected"},
		{"Redis refuses the password", c.redisRefuses, "WRONGPASS|NOAUTH|redis"},
		{"Redis down", func(context.Context) error { return c.redis.Stop() }, ""}, // told already
		{"the database refuses the user", c.databaseRefuses, "run ended early|find due|denied|permitted|claim"},
	} {
		from := c.logSize()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if err := until(ctx, 45*time.Second, "the log tells of it", func(ctx context.Context) (bool, error) {
			return containsAny(c.logFrom(from), step.says), s.scrape(ctx, c.http)
		}); err != nil {
			s.Breaches.Add("%s was not provoked: %v: %s", step.name, err, tailOf(c.all[0].log))
		}
	}
	if err := s.stopAll(c.all); err != nil {
		return err
	}
	s.search("the compensator's log", c.logFrom(0))
	s.figs["log_bytes"], s.figs["alerts"] = c.logSize(), strings.Count(c.logFrom(0), "needs attention")
	s.Breaches.AtLeast("alerts", int64(strings.Count(c.logFrom(0), "needs attention")), 1)
	for _, body := range c.hook.bodies {
		s.search("an alert", body)
	}
	s.Breaches.AtLeast("alerts posted", int64(len(c.hook.bodies)), 3)
	s.Breaches.Equal("alerts without a right signature", c.hook.unsigned, 0)
	return s.operate(ctx, c)
}

// secretRun is that compensator and what it stands on.
type secretRun struct {
	*secrets
	all            []replica
	http           string
	redis          *dbtest.RedisServer
	hook           *webhook
	role           string // in the database
	dsn            string
	password, file string // the broker's
}

// runner makes users with canaries for passwords and starts the compensator with them.
func (s *secrets) runner(ctx context.Context) (*secretRun, error) {
	c := &secretRun{secrets: s, role: "transmsg_test_" + letters(s.Rand, 10), password: s.canary("the broker's user")}
	var err error
	if c.dsn, err = c.addRole(c.canary("the database's user")); err != nil {
		return nil, err
	}
	if err := s.node.AddUser("app", c.password, ".*", "^(ok|full|missing)?$", ".*"); err != nil {
		return nil, err
	}
	if c.redis, err = dbtest.NewRedis(ctx, ""); err != nil {
		return nil, err
	}
	s.later(c.redis.Close)
	secret := s.canary("Redis")
	if err := c.require(ctx, "", secret); err != nil {
		return nil, err
	}
	if c.hook, err = s.newWebhook(url.PathEscape(s.canary("the webhook's URL")), s.canary("the webhook")); err != nil {
		return nil, err
	}
	c.hook.become(hookFails)
	if c.file, err = s.file("broker-password", c.password); err != nil {
		return nil, err
	}
	store, err := s.file("store", c.dsn)
	if err != nil {
		return nil, err
	}
	if c.http, err = freeAddr(); err != nil {
		return nil, err
	}
	args := []string{
		"--store-file", store, "--amqp-addr", s.node.Addr(), "--amqp-user", "app", "--amqp-password-file", c.file,
		"--alert-webhook", c.hook.url, "--alert-webhook-secret", c.canaries["the webhook"], "--alert-window", "1s",
		"--alert-url", s.shoutrrrURL(),
		"--redis", "redis://" + url.UserPassword("", secret).String() + "@" + c.redis.Addr() + "/0", "--lock-ttl", "1s",
		"--http", c.http, "--interval", "100ms", "--max-attempts", "2", "--min-dead-age", "0",
		"--base-delay", "100ms", "--log-level", "debug",
		"--log-format", []string{"json", "text"}[s.Rand.IntN(2)],
	}
	r, err := s.bareReplica(s.binary, "secrets", args...)
	c.all = []replica{r}
	return c, err
}

// failing stores messages that fail in each way.
func (c *secretRun) failing(ctx context.Context) error {
	for _, err := range []error{
		c.broker.Exchange("ok", "direct", nil), c.broker.Exchange("forbidden", "direct", nil),
		c.broker.Queue(amqptest.QueueSpec{Name: "ok"}), c.broker.Bind("ok", "ok", "bound"),
	} {
		if err != nil {
			return err
		}
	}
	var messages []model.Message
	for _, to := range [][2]string{{"ok", "bound"}, {"ok", "unbound"}, {"missing", "x"}, {"forbidden", "x"}} {
		for i := range 5 {
			messages = append(messages, c.message(to[0], to[1], i, 100))
		}
	}
	_, err := c.shelve(ctx, serviceName, messages)
	return errors.Join(err, until(ctx, time.Minute, "some are DEAD", func(ctx context.Context) (bool, error) {
		n, err := c.db.count(ctx, "status = 'DEAD'")
		return n > 0, err
	}))
}

// hookFails waits for calls that fail, hookHangs for one that hangs.
func (c *secretRun) hookFails(ctx context.Context) error { return c.untilCalled(ctx, hookFails) }

func (c *secretRun) hookHangs(ctx context.Context) error {
	c.hook.become(hookHangs)
	return c.untilCalled(ctx, hookHangs)
}

func (c *secretRun) hookWorks(ctx context.Context) error {
	c.hook.become(hookWorks)
	return c.untilCalled(ctx, hookWorks)
}

func (c *secretRun) untilCalled(ctx context.Context, mode string) error {
	return until(ctx, 2*time.Minute, "the webhook that "+mode+" is called", func(context.Context) (bool, error) {
		return c.hook.called(mode) > 0, nil
	})
}

func (c *secretRun) rotate(context.Context) error {
	if err := os.WriteFile(c.file, []byte(c.canary("a password rotated to")), 0o600); err != nil {
		return err
	}
	return c.node.CloseAllConnections()
}

func (c *secretRun) rotateBack(context.Context) error {
	return os.WriteFile(c.file, []byte(c.password), 0o600)
}

func (c *secretRun) redisRefuses(ctx context.Context) error {
	return errors.Join(
		c.require(ctx, c.canaries["Redis"], c.canary("another Redis password")),
		c.kickRedis(ctx),
	)
}

// require sets Redis's password.
func (c *secretRun) require(ctx context.Context, old, password string) error {
	r := redis.NewClient(&redis.Options{Addr: c.redis.Addr(), Password: old})
	return errors.Join(r.ConfigSet(ctx, "requirepass", password).Err(), r.Close())
}

// kickRedis closes all connections to Redis: those that are open stay logged in.
func (c *secretRun) kickRedis(ctx context.Context) error {
	r := redis.NewClient(&redis.Options{Addr: c.redis.Addr(), Password: c.lastRedis()})
	return errors.Join(r.Do(ctx, "CLIENT", "KILL", "TYPE", "normal").Err(), r.Close())
}

func (c *secretRun) lastRedis() string {
	for of, v := range c.canaries {
		if strings.HasPrefix(of, "another Redis") {
			return v
		}
	}
	return ""
}

// scrape searches what the compensator serves.
func (s *secrets) scrape(ctx context.Context, addr string) error {
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // it starts, or the scrape takes long while the database is away
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			continue
		}
		s.search(path, string(body))
	}
	return nil
}

// operate runs the operators' verbs on what is in the table, the role being let in again.
func (s *secrets) operate(ctx context.Context, c *secretRun) error {
	if err := c.databaseAccepts(); err != nil {
		return err
	}
	ids, err := s.db.strings(ctx, "SELECT id FROM trans_message WHERE status = 'DEAD' ORDER BY id")
	if err != nil || len(ids) == 0 {
		return fmt.Errorf("no DEAD rows (%w)", err)
	}
	for _, args := range [][]string{
		{"messages", "list"},
		{"messages", "show", ids[0]},
		{"messages", "groups"},
		{"messages", "export", "--all"},
		{"messages", "replay", ids[0], "--yes"},
		{"messages", "edit", ids[len(ids)-1], "--body", "x", "--yes"},
		{"messages", "discard", ids[len(ids)-1], "--yes"},
		{"stats"},
		{"migrate", "status"},
		{"migrate", "print"},
	} {
		status, out, err := s.try(ctx, time.Minute, nil, append(args, "--store", c.dsn)...)
		if err != nil {
			return err
		}
		if args[len(args)-1] != "print" { // spelled differently, perhaps
			s.Breaches.Check(status == 0, "%v: exit status %d: %.300s", args, status, out)
		}
	}
	return nil
}

func (c *secretRun) logFrom(from int) string {
	b, err := os.ReadFile(c.all[0].log)
	if err != nil {
		return err.Error()
	}
	return string(b[min(from, len(b)):])
}

func (c *secretRun) logSize() int { return len(c.logFrom(0)) }

func containsAny(text, words string) bool {
	for _, w := range strings.Split(words, "|") {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
