package management

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxNames is how many queues a text names.
const maxNames = 5

// Reach is where a message would go now, by the bindings that the broker has.
type Reach struct {
	// Queues are those that certainly take it, each once, sorted.
	Queues []string
	// Unknown are the reasons why there may be others; empty means that Queues are all.
	Unknown []string
	// ByHeaders says that the message's headers had a part in it: a message with others may
	// go elsewhere.
	ByHeaders bool
}

// String says it in words. An unknown number is never 0.
func (r Reach) String() string {
	why := "; how many others is unknown: " + strings.Join(r.Unknown, "; ")
	switch {
	case len(r.Unknown) > 0 && len(r.Queues) == 0:
		return "unknown: " + strings.Join(r.Unknown, "; ")
	case len(r.Unknown) > 0:
		return "at least " + named(r.Queues) + why
	case len(r.Queues) == 0:
		return "no queue"
	}
	return named(r.Queues)
}

func named(queues []string) string {
	text := "1 queue: "
	if len(queues) > 1 {
		text = fmt.Sprintf("%d queues: ", len(queues))
	}
	shown := queues[:min(len(queues), maxNames)]
	for i, q := range shown {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%q", q)
	}
	if more := len(queues) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Routes tells where messages of one virtual host would go. What it has read of the broker it
// keeps, so use one for one question. Not safe for concurrent use.
type Routes struct {
	client    *Client
	vhost     string
	exchanges map[string]*source
	failed    error // the API does not answer; it is not asked again
}

// source is an exchange with its bindings.
type source struct {
	Exchange
	bindings []Binding
}

// Routes begins with an empty memory of one virtual host.
func (c *Client) Routes(vhost string) *Routes {
	return &Routes{client: c, vhost: vhost, exchanges: map[string]*source{}}
}

// Reach follows a message from a named exchange through exchanges bound to each other to the
// queues. headers is called at most once, where a headers exchange is met. What cannot be decided
// (an exchange that does not exist or is of a plugin's kind, an alternate exchange, an API that
// does not answer, an error of headers) is in Unknown.
func (r *Routes) Reach(
	ctx context.Context, exchange, key string, headers func() (map[string]any, error),
) Reach {
	w := walk{routes: r, key: key, read: headers, queues: map[string]bool{}}
	seen := map[string]bool{exchange: true}
	for next := []string{exchange}; len(next) > 0; next = next[1:] {
		for _, to := range w.through(ctx, next[0]) {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return Reach{
		Queues: slices.Sorted(maps.Keys(w.queues)), Unknown: w.unknown, ByHeaders: w.asked,
	}
}

// walk is one message's way.
type walk struct {
	routes  *Routes
	key     string
	read    func() (map[string]any, error)
	asked   bool // read was called; what it returned:
	headers map[string]any
	failed  error
	queues  map[string]bool
	unknown []string
}

func (w *walk) doubt(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.unknown, text) {
		w.unknown = append(w.unknown, text)
	}
}

// through takes the message through one exchange: queues are noted, exchanges returned.
func (w *walk) through(ctx context.Context, name string) []string {
	from, err := w.routes.source(ctx, name)
	switch {
	case errors.Is(err, ErrNotFound):
		w.doubt("virtual host %q has no exchange %q", w.routes.vhost, name)
		return nil
	case err != nil:
		w.doubt("%v", err)
		return nil
	}
	if from.Kind == "headers" {
		if !w.asked {
			w.headers, w.failed = w.read()
			w.asked = true
		}
		if w.failed != nil {
			w.doubt("exchange %q goes by headers, and the message's cannot be read: %v", name, w.failed)
			return nil
		}
	}
	return w.follow(from)
}

// follow takes the message along the bindings of one exchange.
func (w *walk) follow(from *source) []string {
	var exchanges []string
	taken := false
	for i := range from.bindings {
		b := &from.bindings[i]
		v, known := w.takes(from.Kind, b)
		if !known {
			w.doubt("exchange %q is of kind %s, which decides by itself", from.Name, from.Kind)
			return nil
		}
		switch {
		case v == maybe:
			taken = true // there is a doubt already
			w.doubt("exchange %q compares headers whose types the management API does not tell", from.Name)
		case v == yes && b.DestinationType == ToQueue:
			taken, w.queues[b.Destination] = true, true
		case v == yes:
			taken, exchanges = true, append(exchanges, b.Destination)
		}
	}
	if taken {
		return exchanges
	}
	if to, ok := from.Arguments["alternate-exchange"].(string); ok {
		w.doubt("no binding of exchange %q takes the message, and its alternate exchange %q is not followed",
			from.Name, to)
	} else if from.Policy != "" {
		w.doubt("no binding of exchange %q takes the message, and policy %q may give it an alternate exchange",
			from.Name, from.Policy)
	}
	return nil
}

// takes says whether a binding takes the message; known is false for a plugin's kind.
func (w *walk) takes(kind string, b *Binding) (v verdict, known bool) {
	switch kind {
	case "direct":
		return is(b.RoutingKey == w.key), true
	case "fanout":
		return yes, true
	case "topic":
		return is(topicMatches(b.RoutingKey, w.key)), true
	case "headers":
		return headersMatch(b.Arguments, w.headers), true
	}
	return no, false
}

// source reads an exchange and its bindings, once.
func (r *Routes) source(ctx context.Context, name string) (*source, error) {
	if s := r.exchanges[name]; s != nil {
		return s, nil
	}
	if r.failed != nil {
		return nil, r.failed
	}
	var s source
	var err error
	if s.Exchange, err = r.client.Exchange(ctx, r.vhost, name); err == nil {
		s.bindings, err = r.client.BindingsOfSource(ctx, r.vhost, name)
	}
	if err != nil {
		if !errors.Is(err, ErrNotFound) {
			r.failed = err
		}
		return nil, err
	}
	r.exchanges[name] = &s
	return &s, nil
}
