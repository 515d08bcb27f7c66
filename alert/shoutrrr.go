package alert

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"github.com/transmsg/transmsg/model"
)

// ShoutrrrSink sends alerts as one line of text through services that shoutrrr knows, such
// as slack://, telegram:// or smtp://.
type ShoutrrrSink struct {
	services []service
}

// service is one URL's. The library's own router is not used for sending: it answers in
// no order, and a panic of a service there ends the process.
type service struct {
	name   string // position and scheme
	sender types.Service
}

// NewShoutrrr returns a sink for one or more service URLs as shoutrrr documents them, or
// an error that names the position and the scheme of the one it does not take, and nothing
// else of it. Some services ask their host at this point.
func NewShoutrrr(urls ...string) (*ShoutrrrSink, error) {
	if len(urls) == 0 {
		return nil, errors.New("alert: shoutrrr: no URL")
	}
	// Without a logger, which would print what it sends where.
	r, err := router.NewWithOptions(nil, types.SenderOptions{HTTPClient: newClient(), Timeout: Timeout})
	if err != nil {
		return nil, errors.New("alert: shoutrrr: no router")
	}
	s := &ShoutrrrSink{}
	for i, raw := range urls {
		name := fmt.Sprintf("%s (URL %d)", scheme(raw), i+1)
		sender, err := locate(r, raw)
		if err != nil {
			return nil, fmt.Errorf("alert: shoutrrr: %s is not one that shoutrrr takes", name)
		}
		s.services = append(s.services, service{name: name, sender: sender})
	}
	return s, nil
}

var errPanic = errors.New("the service panicked")

func locate(r *router.ServiceRouter, raw string) (s types.Service, err error) {
	defer func() {
		if recover() != nil { // its value may hold the URL
			err = errPanic
		}
	}()
	return r.Locate(raw)
}

// scheme is the one part of a URL that holds no token.
func scheme(raw string) string {
	name, _, ok := strings.Cut(raw, ":")
	base, _, _ := strings.Cut(name, "+")
	if u, err := url.Parse(name + "://x"); !ok || err != nil || u.Scheme != name || !router.SupportsSchema(base) {
		return "unknown scheme"
	}
	return base
}

// Alert sends to every service within 5 s and the time of ctx, and accepts when all of
// them did. A service that does not look at the time may go on in the background.
func (s *ShoutrrrSink) Alert(ctx context.Context, a model.Alert) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	errs := make([]error, len(s.services))
	var wg sync.WaitGroup
	for i := range s.services {
		wg.Go(func() { errs[i] = s.services[i].send(ctx, a.String()) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// send waits for one service until ctx ends.
func (s *service) send(ctx context.Context, text string) error {
	done := make(chan error, 1)
	go func() { done <- s.call(ctx, text) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errPanic):
		return fmt.Errorf("shoutrrr: %s: %w", s.name, errPanic)
	default:
		return fmt.Errorf("shoutrrr: %s: %s", s.name, reason(err))
	}
}

func (s *service) call(ctx context.Context, text string) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	if sender, ok := s.sender.(types.ContextSender); ok {
		return sender.SendContext(ctx, text, &types.Params{})
	}
	return s.sender.Send(text, &types.Params{})
}
