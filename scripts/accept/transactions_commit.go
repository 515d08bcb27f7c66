package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/internal/faultproxy"
)

// commitFails breaks the service's own connection around its commit, through a
// proxy on the way or at the server.
func (t *transactions) commitFails(ctx context.Context, _ conduit, via string) error {
	proxy, dsn, err := proxied(t.Store, t.dsn)
	if err != nil {
		return err
	}
	t.later(proxy.Close)
	c, err := openConduit(via, t.Store, dsn)
	if err != nil {
		return err
	}
	t.later(c.close)
	for _, end := range []struct {
		name string
		prep func(ctx context.Context, s session, p *faultproxy.Proxy, id string) (cut func() error, err error)
	}{
		{endConnectionKilled, t.killConnection},
		{endCutBefore, t.cutBefore},
		{endCutAfter, t.cutAfter},
	} {
		m := t.message(end.name)
		cut := func() error { return nil }
		err := c.transaction(ctx, t.svc.pub, func(s session) error {
			err := order(ctx, s, m)
			if err == nil {
				cut, err = end.prep(ctx, s, proxy, m.ID)
			}
			return err
		})
		t.Breaches.Check(err != nil, "%s: the commit returned nil", end.name)
		if err := cut(); err != nil {
			return errors.Join(errors.New(end.name), err)
		}
		n, err := t.db.number(ctx, "SELECT COUNT(*) FROM orders WHERE id = ?", m.ID)
		if err != nil {
			return err
		}
		want := 0
		if end.name == endCutAfter {
			want = 1
		}
		if n != want { // The fault was not the one that was meant.
			return errors.New(end.name + ": the order is there or not, unlike what was meant")
		}
	}
	return nil
}

// killConnection ends the transaction's connection at the server.
func (t *transactions) killConnection(ctx context.Context, s session, _ *faultproxy.Proxy, _ string) (
	func() error, error,
) {
	nothing := func() error { return nil }
	if t.Store == "postgres" {
		pid, err := s.number(ctx, "SELECT pg_backend_pid()")
		if err != nil {
			return nothing, err
		}
		_, err = t.db.number(ctx, "SELECT pg_terminate_backend(?, 5000)::int", pid)
		return nothing, err
	}
	id, err := s.number(ctx, "SELECT CONNECTION_ID()")
	if err != nil {
		return nothing, err
	}
	return nothing, t.db.exec(ctx, "KILL ?", id)
}

// cutBefore holds the commit back on its way and then cuts the connection.
func (t *transactions) cutBefore(ctx context.Context, _ session, p *faultproxy.Proxy, _ string) (func() error, error) {
	before := p.Stats().Stalled
	p.Stall(faultproxy.ToServer)
	return t.cutWhen(ctx, p, "the commit is held back", func(context.Context) (bool, error) {
		return p.Stats().Stalled > before, nil
	}), nil
}

// cutAfter holds the answer back and cuts once others can see the order.
func (t *transactions) cutAfter(ctx context.Context, _ session, p *faultproxy.Proxy, id string) (func() error, error) {
	p.Stall(faultproxy.ToClient)
	return t.cutWhen(ctx, p, "the order is committed", func(ctx context.Context) (bool, error) {
		n, err := t.db.number(ctx, "SELECT COUNT(*) FROM orders WHERE id = ?", id)
		return n == 1, err
	}), nil
}

// cutWhen cuts the proxy's connections, in the background, when the condition
// holds. The function that it returns waits for that.
func (t *transactions) cutWhen(
	ctx context.Context, p *faultproxy.Proxy, what string, holds func(context.Context) (bool, error),
) func() error {
	done := make(chan error, 1)
	go func() {
		err := until(ctx, 20*time.Second, what, holds)
		p.Cut(true)
		p.Resume()
		done <- err
	}()
	return func() error { return <-done }
}

// proxied starts a proxy to the server of a DSN and returns the DSN through it.
func proxied(dialect, dsn string) (*faultproxy.Proxy, string, error) {
	if dialect == "postgres" {
		return proxiedURL(dsn)
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, "", err
	}
	p, err := faultproxy.New(c.Addr)
	if err != nil {
		return nil, "", err
	}
	c.Addr = p.Addr()
	return p, c.FormatDSN(), nil
}

func proxiedURL(raw string) (*faultproxy.Proxy, string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, "", err
	}
	p, err := faultproxy.New(u.Host)
	if err != nil {
		return nil, "", err
	}
	u.Host = p.Addr()
	return p, u.String(), nil
}
