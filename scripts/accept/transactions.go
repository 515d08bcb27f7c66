package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
)

// transactionsCheck publishes inside transactions that end in every way. Each
// message has an order of the same id in the same transaction: delivered is
// exactly what has its order, once.
func transactionsCheck() check {
	return check{
		name:  "transactions",
		about: "eight ends of a transaction, by gorm and database/sql: a message goes out once if its order exists",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			t := &transactions{
				world: w, exchange: w.name("ex"), queue: w.name("main"), key: w.name("key"),
				ends: map[string][]string{}, arrived: map[string]int{},
			}
			if err := t.prepare(ctx); err != nil {
				return nil, err
			}
			return t.run(ctx)
		}),
	}
}

type transactions struct {
	*world
	exchange, queue, key string
	spec                 serviceSpec
	svc                  *service
	wrongDSN             string
	wrongDB              *table

	mu      sync.Mutex
	ends    map[string][]string // the ids of each end
	arrived map[string]int      // deliveries of each id
}

func (t *transactions) prepare(ctx context.Context) (err error) {
	for _, err := range []error{
		t.broker.Exchange(t.exchange, "direct", nil),
		t.broker.Queue(amqptest.QueueSpec{Name: t.queue}),
		t.broker.Bind(t.queue, t.exchange, t.key),
	} {
		if err != nil {
			return err
		}
	}
	// A second database with all tables: the statements work there, too.
	if t.wrongDSN, err = t.newDatabase(ctx, worldOptions{}); err != nil {
		return err
	}
	if err := t.transmsg(ctx, "migrate", "up", "--store", t.wrongDSN); err != nil {
		return err
	}
	if t.wrongDB, err = openTable(t.Store, t.wrongDSN); err != nil {
		return err
	}
	t.later(t.wrongDB.db.Close)
	for _, db := range []*table{t.db, t.wrongDB} {
		for _, statement := range []string{
			"CREATE TABLE orders (id VARCHAR(36) PRIMARY KEY)",
			"CREATE TABLE stock (id INT PRIMARY KEY, n INT NOT NULL)",
			"INSERT INTO stock VALUES (1, 0), (2, 0)",
		} {
			if err := db.exec(ctx, statement); err != nil {
				return err
			}
		}
	}
	return t.open(ctx)
}

// open starts the service with a short lease, so that a transaction outlives it
// soon, and with late confirms, so that a row which is not leased while its
// message is under way meets the compensator.
func (t *transactions) open(ctx context.Context) error {
	proxy, through, err := proxiedURL(t.url)
	if err != nil {
		return err
	}
	t.later(proxy.Close)
	t.spec = serviceSpec{AMQP: through, ConfirmTimeout: time.Second, SendBudget: time.Second}
	if t.svc, err = t.service(ctx, t.spec); err != nil {
		return err
	}
	if err := t.svc.ready(ctx); err != nil {
		return err
	}
	proxy.Delay(faultproxy.ToClient, time.Duration(250+t.Rand.IntN(200))*time.Millisecond)
	t.spec.DSN, t.spec.AMQP = t.dsn, t.url
	return nil
}

// message returns one for an end of a transaction.
func (t *transactions) message(end string) model.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.world.message(t.exchange, t.key, len(t.ends[end]), 4096)
	m.ID = model.StableID("accept", end, fmt.Sprint(t.Seed), fmt.Sprint(len(t.ends[end])))
	t.ends[end] = append(t.ends[end], m.ID)
	return m
}

// order is what each transaction does: an order and its message.
func order(ctx context.Context, s session, m model.Message) error {
	if err := s.exec(ctx, "INSERT INTO orders VALUES (?)", m.ID); err != nil {
		return err
	}
	return s.out.Publish(ctx, m)
}

func (t *transactions) run(ctx context.Context) (figures, error) {
	interval := time.Duration(20+t.Rand.IntN(200)) * time.Millisecond
	compensator := []string{"--interval", interval.String(), "--confirm-timeout", "1s", "--lease", "10s"}
	d, err := t.compensate(compensator...)
	if err != nil {
		return nil, err
	}
	if err := t.each(ctx, t.dsn, t.outlived, t.rolledBack, t.savepoint, t.deadlocked); err != nil {
		return nil, err
	}
	if err := t.each(ctx, t.wrongDSN, t.wrongDatabase); err != nil {
		return nil, err
	}
	if err := until(ctx, time.Minute, "the table is empty", t.db.empty); err != nil {
		return nil, err
	}
	if err := d.stop(); err != nil {
		return nil, err
	}
	if err := t.compare(ctx, "with a compensator"); err != nil {
		return nil, err
	}
	// From here on what arrives can only come from the service itself: nothing may.
	if err := t.each(ctx, t.dsn, t.commitFails, t.neverCalled, t.killed); err != nil {
		return nil, err
	}
	if err := t.svc.close(ctx); err != nil {
		return nil, err
	}
	before := len(t.arrived)
	if err := t.harvestAll(ctx); err != nil {
		return nil, err
	}
	t.Breaches.Equal("messages sent without a successful commit of the Tx", len(t.arrived)-before, 0)
	if _, err := t.compensate(compensator...); err != nil {
		return nil, err
	}
	if err := until(ctx, time.Minute, "the table is empty again", t.db.empty); err != nil {
		return nil, err
	}
	if err := t.compare(ctx, "by the compensator"); err != nil {
		return nil, err
	}
	return t.report(ctx)
}

// each runs the ends through gorm and through database/sql.
func (t *transactions) each(
	ctx context.Context, dsn string, ends ...func(ctx context.Context, c conduit, via string) error,
) error {
	for _, via := range conduits() {
		c, err := openConduit(via, t.Store, dsn)
		if err != nil {
			return err
		}
		t.later(c.close)
		t.Rand.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		for _, end := range ends {
			if err := end(ctx, c, via); err != nil {
				return fmt.Errorf("through %s: %w", via, err)
			}
		}
	}
	return nil
}

func (t *transactions) harvestAll(ctx context.Context) error {
	got, err := t.harvest(ctx, t.queue)
	for id, n := range times(got) {
		t.arrived[id] += n
	}
	return err
}

// compare wants what has an order delivered once, and nothing else.
func (t *transactions) compare(ctx context.Context, when string) error {
	if err := t.harvestAll(ctx); err != nil {
		return err
	}
	orders, err := t.db.strings(ctx, "SELECT id FROM orders")
	if err != nil {
		return err
	}
	for end, ids := range t.ends {
		for _, id := range ids {
			want := 0
			if slices.Contains(orders, id) {
				want = 1
			}
			t.Breaches.Equal(fmt.Sprintf("%s: deliveries of %s (%s)", when, id, end), t.arrived[id], want)
		}
	}
	return nil
}

// report counts deliveries by end and compares them with the promise.
func (t *transactions) report(ctx context.Context) (figures, error) {
	delivered := map[string]string{}
	for end, ids := range t.ends {
		n := 0
		for _, id := range ids {
			n += t.arrived[id]
		}
		delivered[end] = fmt.Sprintf("%d of %d", n, len(ids))
		switch want := promised(end); {
		case want >= 0:
			t.Breaches.Equal("deliveries of all "+end, n, want*len(ids))
		default: // The wrappers cannot know; the orders were compared one by one.
		}
	}
	wrong, err := t.wrongDB.count(ctx, "1 = 1")
	if err != nil {
		return nil, err
	}
	t.Breaches.Equal("rows in the wrong database", wrong, len(conduits()))
	return figures{"delivered": delivered}, nil
}

// promised is how often a message with this end is delivered; -1 says that the
// commit decides.
func promised(end string) int {
	switch end {
	case endOutlived, endOuter, endNeverCalled, endKilled:
		return 1
	case endCutAfter, endCutBefore, endConnectionKilled:
		return -1
	default:
		return 0
	}
}
