package consumer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/internal/management"
)

// Management says where RabbitMQ's management API is, which alone tells what waits in the steps of a ladder. Its user
// needs the tag management and a permission in the virtual host. The zero value is none.
type Management struct {
	// URL returns http://user:password@host:15672 or https://. It is asked before each look, every 5 s.
	URL func(ctx context.Context) (string, error)
	// TLS returns the settings for an https URL. Nil is the system's authorities.
	TLS func(ctx context.Context) (*tls.Config, error)
}

// StepStats is what waits in one step of a queue's ladder.
type StepStats struct {
	// Queue is the step's queue.
	Queue string
	// Step is how long a copy should wait there.
	Step time.Duration
	// Messages are all that the queue holds. Of them Forwarding have waited for their step and are not taken by the
	// work queue: it is missing, full or away.
	Messages, Forwarding int
	// Oldest is how long the oldest has been there, as far as this process has seen: at least so long.
	Oldest time.Duration
}

const (
	// lookEvery is how often the steps are looked at. The broker's figures are as old.
	lookEvery = 5 * time.Second
	// maxSamples bounds what is remembered of a step; older ones are thinned out.
	maxSamples = 1000
)

// watchSteps looks at the ladders' queues until ctx ends.
func (c *Consumer) watchSteps(ctx context.Context) {
	seen := make(map[string]*stepHistory)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		steps, err := c.look(ctx, seen)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.log.Warn("the retry steps are not seen", "error", err)
		}
		for _, q := range c.queues {
			q.mu.Lock()
			q.steps = steps[q.cfg.Name]
			q.mu.Unlock()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look asks for every step once. What cannot be seen is left out, and told by the error.
func (c *Consumer) look(ctx context.Context, seen map[string]*stepHistory) (map[string][]StepStats, error) {
	api, err := c.api(ctx)
	if err != nil {
		return nil, err
	}
	defer api.Close()
	var overview struct {
		Disabled bool   `json:"disable_stats"`
		Rates    string `json:"rates_mode"`
	}
	if err := api.Get(ctx, &overview, "overview"); err != nil {
		return nil, err
	}
	if overview.Disabled || overview.Rates == "none" {
		return nil, errors.New("the broker keeps no statistics of its queues: without them no age is known")
	}
	all := make(map[string][]StepStats)
	for _, q := range c.queues {
		if q.cfg.Ordered {
			continue
		}
		for i, step := range q.cfg.Steps {
			name := q.cfg.ladder().StepQueue(i)
			var now stepSample
			switch getErr := api.Get(ctx, &now, "queues", c.cfg.VHost, name); {
			case errors.Is(getErr, management.ErrNotFound):
				delete(seen, name)
				continue
			case getErr != nil:
				err = cmp.Or(err, getErr)
				continue
			}
			if seen[name] == nil {
				seen[name] = &stepHistory{}
			}
			all[q.cfg.Name] = append(all[q.cfg.Name], StepStats{
				Queue: name, Step: step, Messages: now.Messages, Forwarding: now.Forwarding,
				Oldest: seen[name].oldest(now, time.Now()),
			})
		}
	}
	return all, err
}

func (c *Consumer) api(ctx context.Context) (*management.Client, error) {
	address, err := c.cfg.Management.URL(ctx)
	if err != nil {
		return nil, fmt.Errorf("the management API's URL: %w", err)
	}
	cfg := management.Config{URL: address}
	if c.cfg.Management.TLS != nil {
		if cfg.TLS, err = c.cfg.Management.TLS(ctx); err != nil {
			return nil, fmt.Errorf("TLS of the management API: %w", err)
		}
	}
	client, err := management.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("management API: %w", err)
	}
	return client, nil
}

// stepSample is the API's answer about a queue.
type stepSample struct {
	Messages   int `json:"messages"`
	Forwarding int `json:"messages_dlx"`
	Stats      struct {
		Published int64 `json:"publish"` // since the broker's start
	} `json:"message_stats"`
}

// stepHistory tells the age of the oldest message from how many came and how many are there: a step's queue is first
// in, first out, so those that are there are the last that came. No message need be taken out to look at it.
type stepHistory struct {
	published, last int64 // all that came; the broker's count, which begins anew when it starts
	samples         []stepMark
}

// stepMark is an earlier look, of whose messages at most left are still there.
type stepMark struct {
	at        time.Time
	published int64
	left      int64
}

// oldest notes a look, and returns since when the oldest message is known to be there.
func (h *stepHistory) oldest(s stepSample, now time.Time) time.Duration {
	came := s.Stats.Published - h.last
	if came < 0 {
		came = s.Stats.Published
	}
	h.published, h.last = h.published+came, s.Stats.Published
	there := int64(s.Messages)
	kept := h.samples[:0]
	for _, m := range h.samples {
		// The two figures are not of one instant, so each look may only lower what is left.
		if m.left = min(m.left, there, there-(h.published-m.published)); m.left > 0 {
			kept = append(kept, m)
		}
	}
	h.samples = kept
	if there > 0 {
		h.samples = append(h.samples, stepMark{at: now, published: h.published, left: there})
	}
	if len(h.samples) > maxSamples {
		for i := range len(h.samples) / 2 {
			h.samples[i] = h.samples[2*i]
		}
		h.samples = h.samples[:len(h.samples)/2]
	}
	if len(h.samples) == 0 {
		return 0
	}
	return now.Sub(h.samples[0].at)
}
