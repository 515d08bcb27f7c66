package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// sickRate is how many healthy messages the service publishes for each sick one.
const sickRate = 4

// sickPartCheck puts sick routes beside a healthy one, under a service and two compensators.
func sickPartCheck() check {
	return check{
		name: "sick-part",
		about: "missing and internal exchanges, unbound keys, a full queue, unreadable rows, a sink that hangs: " +
			"the healthy route's messages arrive, none DEAD, few channels closed; after the repair all the rest do",
		run: inWorld(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			s := &sickPart{world: w, exchange: w.name("ex"), queue: w.name("healthy"), sick: map[string]string{}}
			for _, part := range []func(context.Context) error{s.prepare, s.backlog, s.publishing, s.judge, s.mended} {
				if err := part(ctx); err != nil {
					return s.figs, err
				}
			}
			return s.figs, nil
		}),
	}
}

// sickRoute is where messages go that cannot be delivered.
type sickRoute struct {
	name, exchange, key string
	mend                func(ctx context.Context) error // nil: its rows stay
}

type sickPart struct {
	*world
	exchange, queue string
	routes          []sickRoute
	box, late       *mailbox
	running         []replica
	addrs           []string
	healthy         []string
	sick            map[string]string // id to the name of its route
	deferred, sent  int
	begin           time.Time
	figs            figures
}

func (s *sickPart) prepare(ctx context.Context) error {
	if err := s.route(s.exchange, "topic", "ok.#", amqptest.QueueSpec{Name: s.queue}); err != nil {
		return err
	}
	mended, full := s.name("mended"), s.name("full")
	for _, err := range []error{
		s.broker.Queue(amqptest.QueueSpec{Name: mended}),
		s.broker.Queue(amqptest.QueueSpec{Name: full, Args: amqp.Table{
			"x-max-length": int32(1), "x-overflow": "reject-publish",
		}}),
		s.broker.Bind(full, s.exchange, "full"),
		s.broker.Publish(ctx, s.exchange, "full", amqp.Publishing{Body: []byte("fills the queue")}),
	} {
		if err != nil {
			return err
		}
	}
	bound := func(name string) error {
		if err := s.broker.Exchange(name, "fanout", nil); err != nil {
			return err
		}
		return s.broker.Bind(mended, name, "")
	}
	missing, internal := s.name("missing"), s.name("internal")
	all := []sickRoute{
		{"missing exchange", missing, "k", func(context.Context) error { return bound(missing) }},
		{"internal exchange", internal, "k", func(context.Context) error {
			if err := s.broker.DeleteExchange(internal); err != nil {
				return err
			}
			return bound(internal)
		}},
		{"unbound key", s.exchange, "lost", func(context.Context) error {
			return s.broker.Bind(mended, s.exchange, "lost")
		}},
		{"full queue", s.exchange, "full", func(context.Context) error {
			if err := s.broker.Unbind(full, s.exchange, "full"); err != nil {
				return err
			}
			return s.broker.Bind(mended, s.exchange, "full")
		}},
		{"unreadable", s.exchange, "ok.unreadable", nil},
	}
	s.Rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	s.routes = all[:3+s.Rand.IntN(3)]
	if err := s.broker.InternalExchange(internal, "fanout"); err != nil {
		return err
	}
	s.box, s.late = openMailbox(ctx, s.url, s.queue), openMailbox(ctx, s.url, mended)
	s.later(s.box.close)
	s.later(s.late.close)
	var names []string
	for _, r := range s.routes {
		names = append(names, r.name)
	}
	s.figs = figures{"sick": names}
	return nil
}

// mixed are n messages, of which one in sickRate+1 goes to a sick route.
func (s *sickPart) mixed(n int, routes []sickRoute) (ms []model.Message, route []string) {
	for i := range n {
		exchange, key, name := s.exchange, "ok."+letters(s.Rand, 5), ""
		if r := routes[s.Rand.IntN(len(routes))]; s.Rand.IntN(sickRate+1) == 0 {
			exchange, key, name = r.exchange, r.key, r.name
		}
		ms, route = append(ms, s.message(exchange, key, i, 512)), append(route, name)
	}
	return ms, route
}

func (s *sickPart) note(id, route string) {
	if route == "" {
		s.healthy = append(s.healthy, id)
	} else {
		s.sick[id] = route
	}
}

// backlog stores rows of all routes, spoils those that cannot be read, and starts the replicas with
// a webhook that hangs.
func (s *sickPart) backlog(ctx context.Context) error {
	ms, routes := s.mixed(1500+s.Rand.IntN(1500), s.routes)
	ids, err := s.shelve(ctx, serviceName, ms)
	if err != nil {
		return err
	}
	for i, id := range ids {
		s.note(id, routes[i])
	}
	if err := s.db.exec(ctx, "UPDATE trans_message SET properties = ? WHERE routing_key = 'ok.unreadable'",
		[]byte(`{"v":99}`)); err != nil {
		return err
	}
	hook, err := s.newWebhook("", "")
	if err != nil {
		return err
	}
	hook.become(hookHangs)
	s.begin = time.Now()
	n := 2
	if s.Store == "sqlite" {
		n = 1 // one process that writes beside the service
	}
	for i := range n {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		r, err := s.replica(s.binary, fmt.Sprintf("sick-%d", i+1), "--http", addr, "--interval", "200ms",
			"--base-delay", "200ms", "--max-delay", "1s", "--max-attempts", "3", "--alert-webhook", hook.url)
		if err != nil {
			return err
		}
		s.running, s.addrs = append(s.running, r), append(s.addrs, addr)
	}
	return nil
}

// publishing publishes to all routes beside the replicas, and counts what of the healthy one was
// not sent at once.
func (s *sickPart) publishing(ctx context.Context) error {
	svc, err := s.service(ctx, serviceSpec{})
	if err != nil {
		return err
	}
	if err := svc.ready(ctx); err != nil {
		return err
	}
	routes := slices.DeleteFunc(slices.Clone(s.routes), func(r sickRoute) bool { return r.mend == nil })
	for range 20 + s.Rand.IntN(20) {
		ms, names := s.mixed(50, routes)
		receipts, err := svc.pub.PublishBatch(ctx, ms)
		if err != nil {
			return err
		}
		for i, r := range receipts {
			o, err := r.Wait(ctx)
			if err != nil {
				return err
			}
			s.note(r.ID(), names[i])
			if names[i] == "" {
				s.sent++
				if o.Kind == model.Deferred {
					s.deferred++
				}
			} else if o.Kind == model.Acked {
				s.Breaches.Add("%s: a message to a sick route (%s) counts as acked", r.ID(), names[i])
			}
		}
	}
	return svc.close(ctx)
}

// judge waits for the healthy messages, and looks at what the sick ones cost.
func (s *sickPart) judge(ctx context.Context) error {
	if err := until(ctx, 2*time.Minute, "the healthy messages arrive", allArrived(s.box, s.healthy)); err != nil {
		s.Breaches.Add("%v", err)
	}
	seconds := time.Since(s.begin).Seconds()
	var closed float64
	for _, addr := range s.addrs {
		n, err := seriesSum(ctx, addr, "transmsg_sender_channel_exceptions_total", "")
		if err != nil {
			return err
		}
		closed += n
	}
	rows, err := s.db.rows(ctx)
	if err != nil {
		return err
	}
	for _, id := range s.healthy {
		s.Breaches.Check(rows[id].Status != "DEAD", "%s: a healthy message is DEAD: %+v", id, rows[id])
	}
	for id, route := range s.sick {
		_, there := rows[id]
		s.Breaches.Check(there, "%s: a message to a sick route (%s) is gone", id, route)
	}
	arrived, _ := s.box.arrived(s.healthy)
	s.figs["healthy"], s.figs["arrived"], s.figs["repeats"] = len(s.healthy), arrived, s.box.repeated()
	s.figs["sick_rows"], s.figs["deferred_of_healthy"] = len(s.sick), fmt.Sprintf("%d of %d", s.deferred, s.sent)
	s.figs["channels_closed"], s.figs["seconds"] = closed, int(seconds)
	// A refused exchange closes a channel to be known, and then for each probe; each close repeats what
	// was in flight at most.
	s.Breaches.AtMost("channels closed by refusals", int64(closed), int64(len(s.running)*(6+int(seconds))))
	s.Breaches.AtMost("healthy messages deferred", int64(s.deferred), int64(s.sent/10))
	refused := 2 // routes that close a channel of the service before it knows them
	s.Breaches.AtMost("repeats of healthy messages", int64(s.box.repeated()),
		(int64(closed)+int64(refused))*confirms.DefaultWindow)
	return nil
}

// mended repairs every route: all its messages must arrive then.
func (s *sickPart) mended(ctx context.Context) error {
	var ids []string
	for _, r := range s.routes {
		if r.mend == nil {
			continue
		}
		if err := r.mend(ctx); err != nil {
			return err
		}
		for id, route := range s.sick {
			if route == r.name {
				ids = append(ids, id)
			}
		}
	}
	if err := s.transmsg(ctx, "messages", "retry", "--store", s.dsn, "--all", "--rate", "0", "--yes"); err != nil {
		return err
	}
	if err := until(ctx, 4*time.Minute, "the mended messages arrive", allArrived(s.late, ids)); err != nil {
		s.Breaches.Add("%v", err)
	}
	s.figs["mended"] = len(ids)
	return s.stopAll(s.running)
}
