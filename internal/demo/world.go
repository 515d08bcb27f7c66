package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/libtnb/sqlite"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

// demo is one run of the demo: its servers' ends, and what it knows to be true, to hold
// against what the consumer saw.
type demo struct {
	cfg    Config
	sayMu  sync.Mutex // for cfg.Out
	log    *slog.Logger
	begin  time.Time
	random *rand.Rand

	dir      string
	broker   *broker
	relay    *relay
	store    *gormstore.Store
	business *sql.DB
	sender   *confirms.Sender // the publisher's, through the relay
	direct   *confirms.Sender // the compensator's
	pub      *publisher.Publisher

	stopCompensator context.CancelFunc
	compensating    sync.WaitGroup
	compensatorErr  error // set before compensating is done

	published  map[string]bool // Publish or the commit returned nil
	rolledBack map[string]bool
	transacted int // committed transactions
	unboundIDs map[string]bool
	repaired   int // the first send was unknown or deferred
	unknown    int // of these, unknown

	alertMu sync.Mutex
	alerted int // messages
}

// open makes everything but the compensator, which the story starts later.
func (d *demo) open(ctx context.Context, cfg confirms.Config) error {
	suffix := model.NewID()[24:]
	direct := cfg
	direct.Name = "transmsg-lab demo compensator"
	var err error
	if d.direct, err = confirms.Open(direct); err != nil {
		return err
	}
	// The engine explains best why there is no broker.
	if err := waitReady(ctx, d.direct, connectTimeout); err != nil {
		return fmt.Errorf("RabbitMQ at %s: %w\nNext: scripts/services.sh rabbitmq starts one, or give --amqp",
			cfg.Addrs[0], err)
	}
	if d.broker, err = openBroker(ctx, cfg, suffix); err != nil {
		return err
	}
	if err := d.openStore(ctx, suffix); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(cfg.Addrs[0])
	if err != nil {
		return err
	}
	if d.relay, err = newRelay(ctx, cfg.Addrs[0]); err != nil {
		return err
	}
	if d.sender, err = confirms.Open(through(cfg, host, d.relay.addr())); err != nil {
		return err
	}
	if err := waitReady(ctx, d.sender, patience); err != nil {
		return err
	}
	d.pub, err = publisher.Open(publisher.Config{
		Service: service, Store: d.store, Sender: d.sender, Policy: policy, Logger: d.log,
	})
	d.say("transmsg-lab demo: RabbitMQ at %s, exchange and queue %s\nstore: %s\n",
		cfg.Addrs[0], d.broker.exchange, filepath.Join(d.dir, "demo.db"))
	return err
}

// openStore makes the SQLite file with the library's tables and a business table beside
// them, each with a pool of its own, as in a service.
func (d *demo) openStore(ctx context.Context, suffix string) error {
	var err error
	if d.dir, err = os.MkdirTemp("", "transmsg-demo-"+suffix+"-"); err != nil {
		return fmt.Errorf("make a folder for the store: %w", err)
	}
	path := filepath.Join(d.dir, "demo.db")
	d.store, err = anystore.Migrated(ctx, "sqlite:"+path, gormstore.Options{Logger: d.log})
	if err != nil {
		return err
	}
	// _txlock: a transaction that reads first and writes later would fail as busy.
	d.business, err = sql.Open(sqlite.DriverName, "file:"+(&url.URL{Path: path}).EscapedPath()+
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=synchronous(FULL)&_pragma=journal_mode(WAL)")
	if err != nil {
		return fmt.Errorf("open the business database: %w", err)
	}
	d.business.SetMaxOpenConns(1) // SQLite has one writer
	_, err = d.business.ExecContext(ctx, "CREATE TABLE orders (message_id TEXT PRIMARY KEY, total INTEGER NOT NULL)")
	if err != nil {
		return fmt.Errorf("create the business table: %w", err)
	}
	return nil
}

// startCompensator embeds a compensator; close ends it.
func (d *demo) startCompensator(ctx context.Context) error {
	comp, err := compensator.New(compensator.Config{
		Store: d.store, Sender: d.direct, Policy: policy, Services: []string{service},
		Interval: 100 * time.Millisecond, Alerter: alerter{d}, AlertWindow: compensator.MinAlertWindow,
		DrainTimeout: 10 * time.Second, Logger: d.log,
	})
	if err != nil {
		return err
	}
	ctx, d.stopCompensator = context.WithCancel(context.WithoutCancel(ctx))
	d.compensating.Go(func() { d.compensatorErr = comp.Run(ctx) })
	return nil
}

// alerter prints alerts and remembers whom they were about.
type alerter struct{ d *demo }

// Alert implements compensator.Alerter.
func (a alerter) Alert(_ context.Context, alert compensator.Alert) error {
	a.d.alertMu.Lock()
	defer a.d.alertMu.Unlock()
	if alert.Kind == model.AlertDead {
		a.d.alerted += alert.Count
	}
	a.d.say("  ALERT  %s: %d message(s) with %s, such as %s (business key %s) after %d attempts",
		strings.ToUpper(string(alert.Kind)), alert.Count, alert.Code.Cause(alert.Text), alert.Sample.ID,
		alert.Sample.Key,
		alert.Sample.Attempts)
	return nil
}

// alerts is how many messages alerts were about.
func (d *demo) alerts() int {
	d.alertMu.Lock()
	defer d.alertMu.Unlock()
	return d.alerted
}

// close ends and removes what open made, in reverse, also where open failed half-way and
// where ctx has ended.
func (d *demo) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	var errs []error
	if d.stopCompensator != nil {
		d.stopCompensator()
		d.compensating.Wait()
		errs = append(errs, d.compensatorErr)
	}
	if d.pub != nil {
		errs = append(errs, d.pub.Close(ctx))
	}
	for _, s := range []*confirms.Sender{d.sender, d.direct} {
		if s != nil {
			errs = append(errs, s.Close(ctx))
		}
	}
	if d.relay != nil {
		d.relay.close()
	}
	if d.business != nil {
		errs = append(errs, d.business.Close())
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	if d.broker != nil {
		errs = append(errs, d.broker.close(d.cfg.Keep))
	}
	if d.dir != "" && !d.cfg.Keep {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}
