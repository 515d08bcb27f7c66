package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// upgradeStretch is what each publisher publishes in each stretch.
const upgradeStretch = 600

// upgradeCheck upgrades a running system as the docs say: migrate, then the new
// binary beside the old one, then the old one ends. The old binary is built from the
// last commit with the schema before.
func upgradeCheck() check {
	return check{
		name: "upgrade",
		about: "old and new binary on one table while it is migrated under traffic: " +
			"all delivered once, no message DEAD, no process ended",
		run: func(ctx context.Context, e *env) (figures, error) {
			if err := serversOnly(e); err != nil {
				return nil, err
			}
			old, commit, err := buildOld(ctx, e)
			if err != nil {
				return nil, err
			}
			w, err := newWorld(ctx, e, worldOptions{})
			if err != nil {
				return nil, err
			}
			defer w.close()
			u := &upgrade{
				world: w, old: old, exchange: w.name("ex"), queue: w.name("main"),
				hold:      time.Duration(300+w.Rand.IntN(1200)) * time.Millisecond,
				published: map[string]string{}, figs: figures{"old": commit},
			}
			return u.figs, u.run(ctx)
		},
	}
}

type upgrade struct {
	*world
	old             string // binary
	exchange, queue string
	published       map[string]string // id to publisher
	hold            time.Duration     // that somebody's transaction stays open
	figs            figures
}

// prepare replaces the world's tables by those of the schema before.
func (u *upgrade) prepare(ctx context.Context) (err error) {
	if u.dsn, err = u.newDatabase(ctx, worldOptions{}); err != nil {
		return err
	}
	if u.db, err = openTable(u.Store, u.dsn); err != nil {
		return err
	}
	u.later(u.db.db.Close)
	if err := u.migrateBy(ctx, u.old); err != nil {
		return err
	}
	// The new binary refuses the old schema and names what to do.
	cmd := exec.CommandContext(ctx, u.binary, "compensator", "--store", u.dsn, "--amqp", u.url, "--http", "")
	cmd.Dir, cmd.Env = u.Dir, plainEnv()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	refused := errors.As(err, &exit) && exit.ExitCode() == 1
	u.Breaches.Check(refused && strings.Contains(string(out), "transmsg migrate up"),
		"the new binary on the old schema: got %v and %.300q, want exit status 1 and the command", err, out)
	return errors.Join(
		u.broker.Exchange(u.exchange, "direct", nil),
		u.broker.Queue(amqptest.QueueSpec{Name: u.queue}),
		u.broker.Bind(u.queue, u.exchange, "bound"),
	)
}

func (u *upgrade) migrateBy(ctx context.Context, binary string) error {
	cmd := exec.CommandContext(ctx, binary, "migrate", "up", "--store", u.dsn)
	cmd.Dir, cmd.Env = u.Dir, plainEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("migrate up by %s: %w: %s", filepath.Base(binary), err, out)
	}
	return nil
}

func (u *upgrade) run(ctx context.Context) error {
	if err := u.prepare(ctx); err != nil {
		return err
	}
	flags := []string{
		"--interval", fmt.Sprintf("%dms", 50+u.Rand.IntN(200)), "--batch", fmt.Sprint(20 + u.Rand.IntN(200)),
		"--base-delay", "200ms", "--max-delay", "1s", "--max-attempts", "1000",
	}
	oldOnes, err := u.start(u.old, "old", flags)
	if err != nil {
		return err
	}
	oldPub, err := u.cli(u.old, "old-service")
	if err != nil {
		return err
	}
	if err := u.traffic(ctx, map[string]*cliPublisher{"old": oldPub}, u.migrateInTheMiddle); err != nil {
		return fmt.Errorf("old binary while migrating: %w", err)
	}
	newOnes, err := u.start(u.binary, "new", flags)
	if err != nil {
		return err
	}
	newPub, err := u.cli(u.binary, "new-service")
	if err != nil {
		return err
	}
	// What was returned until now can be delivered, by either version.
	both := map[string]*cliPublisher{"old": oldPub, "new": newPub}
	if err := u.traffic(ctx, both, func(context.Context) error {
		return u.broker.Bind(u.queue, u.exchange, "unbound")
	}); err != nil {
		return fmt.Errorf("old and new binary: %w", err)
	}
	if err := u.end("old", oldPub, oldOnes); err != nil {
		return err
	}
	if err := u.traffic(ctx, map[string]*cliPublisher{"new": newPub}, nil); err != nil {
		return fmt.Errorf("new binary alone: %w", err)
	}
	if err := until(ctx, time.Minute, "the table is empty", u.db.empty); err != nil {
		u.Breaches.Add("%v", err)
	}
	if err := u.end("new", newPub, newOnes); err != nil {
		return err
	}
	return u.check(ctx)
}

// start starts two compensators of one version.
func (u *upgrade) start(binary, version string, flags []string) ([]replica, error) {
	var all []replica
	for i := range 2 {
		r, err := u.replica(binary, fmt.Sprintf("%s-%d", version, i+1), flags...)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// end stops one version's processes, which must be able to say that all went well.
func (u *upgrade) end(version string, p *cliPublisher, all []replica) error {
	status, err := p.finish()
	if err != nil {
		return fmt.Errorf("%s publisher: %w", version, err)
	}
	u.Breaches.Check(status == 0 || status == 3, "%s publisher: exit status %d, want 0 or 3 (some were returned)",
		version, status)
	return u.stopAll(all)
}

// traffic publishes a stretch by each publisher in turn and does meanwhile, if not
// nil, at a seeded moment of it.
func (u *upgrade) traffic(
	ctx context.Context, by map[string]*cliPublisher, meanwhile func(context.Context) error,
) error {
	names := []string{"old", "new"}
	at, done := u.Rand.IntN(upgradeStretch/2), make(chan error, 1)
	if meanwhile == nil {
		done <- nil
	}
	for i := range upgradeStretch {
		if i == at && meanwhile != nil {
			go func() { done <- meanwhile(ctx) }()
		}
		for _, name := range names {
			if p := by[name]; p != nil {
				l := u.line()
				u.published[l.ID] = name
				if err := p.give(l); err != nil {
					return fmt.Errorf("%s publisher: %w", name, err)
				}
			}
		}
		time.Sleep(time.Duration(u.Rand.IntN(8)) * time.Millisecond) // A steady load, not a burst.
	}
	if err := <-done; err != nil {
		return err
	}
	for name, p := range by {
		if err := until(ctx, time.Minute, "all of the "+name+" publisher's messages have an outcome",
			func(context.Context) (bool, error) { return p.known() == len(p.given), nil }); err != nil {
			u.Breaches.Add("%v: %d of %d", err, p.known(), len(p.given))
		}
		for id, outcome := range p.outcomes {
			switch outcome {
			case "acked", "returned", "deferred", "unknown", "pending":
			default:
				u.Breaches.Add("%s publisher: message %s: %s", name, id, outcome)
			}
		}
	}
	return nil
}

// line is a message that goes through at once, that nothing is bound for yet, or that
// is for later.
func (u *upgrade) line() line {
	l := line{
		ID: uuid.Must(uuid.NewV7()).String(), Exchange: u.exchange, RoutingKey: "bound",
		Key: letters(u.Rand, 8), Body: bytesOf(u.Rand, size(u.Rand, 4096)),
	}
	switch u.Rand.IntN(10) {
	case 0, 1:
		l.RoutingKey = "unbound"
	case 2, 3:
		l.NotBefore = time.Now().Add(time.Duration(u.Rand.IntN(3000)) * time.Millisecond).UTC().Format(time.RFC3339Nano)
	}
	return l
}

// migrateInTheMiddle migrates while a transaction of somebody's is open on the table,
// which the change has to wait for, and traffic behind the change.
func (u *upgrade) migrateInTheMiddle(ctx context.Context) error {
	tx, err := u.db.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT 1 FROM trans_message LIMIT 1"); err != nil {
		return err
	}
	rolled := make(chan error, 1)
	go func() {
		time.Sleep(u.hold)
		rolled <- tx.Rollback()
	}()
	begin := time.Now()
	// PostgreSQL's lock timeout ends a migration rather than keep traffic waiting behind
	// it for long; whoever migrates runs it again.
	for try := 1; ; try++ {
		err = u.migrateBy(ctx, u.binary)
		u.figs["migration_tries"], u.figs["migration_ms"] = try, time.Since(begin).Milliseconds()
		if err == nil || try == 5 || !strings.Contains(err.Error(), "lock timeout") {
			return errors.Join(err, <-rolled)
		}
	}
}

func (u *upgrade) check(ctx context.Context) error {
	dead, err := u.db.number(ctx, "SELECT COUNT(*) FROM trans_message_event WHERE kind = 'dead'")
	if err != nil {
		return err
	}
	u.Breaches.Equal("messages that were given up", dead, 0)
	got, err := u.harvest(ctx, u.queue)
	if err != nil {
		return err
	}
	n, repeated := times(got), 0
	missing := map[string]int{}
	for id, by := range u.published {
		if n[id] == 0 {
			missing[by]++
		}
		repeated += max(0, n[id]-1)
		delete(n, id)
	}
	u.Breaches.Equal("messages lost, by the publisher's version", missing, map[string]int{})
	u.Breaches.Equal("deliveries beyond the first", repeated, 0)
	u.Breaches.Equal("deliveries that nobody published", len(n), 0)
	u.figs["published"], u.figs["deliveries"] = len(u.published), len(got)
	return nil
}
