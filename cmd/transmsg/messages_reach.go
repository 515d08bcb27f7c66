package main

import (
	"context"
	"fmt"
	"io"

	"github.com/transmsg/transmsg/internal/management"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// reaches is how verbs learn which queues messages would reach. Nil is for those that send none.
type reaches struct {
	routes *management.Routes // nil without --management
}

// headersOf reads the headers of a stored message, or of a dead letter, by its id.
type headersOf func(ctx context.Context, id string) (map[string]any, error)

// jsonReach is the documented form of where the messages of one route would go.
type jsonReach struct {
	Exchange   string   `json:"exchange"`
	RoutingKey string   `json:"routing_key"`
	SampleID   string   `json:"sample_id"` // the message whose headers counted, "" if none did
	Queues     *int     `json:"queues"`    // null is unknown, which is not 0
	Names      []string `json:"names"`     // those that are certain
	Text       string   `json:"text"`
}

// unasked is said without --management.
const unasked = "unknown: AMQP does not tell; give --management, or see rabbitmqctl list_bindings"

// route says where a message with this id, exchange and routing key would go.
func (r *reaches) route(ctx context.Context, exchange, key, id string, headers headersOf) jsonReach {
	out := jsonReach{Exchange: exchange, RoutingKey: key, Names: []string{}}
	if r.routes == nil {
		out.Text = unasked
		return out
	}
	found := r.routes.Reach(ctx, exchange, key, func() (map[string]any, error) { return headers(ctx, id) })
	out.Text = found.String()
	out.Names = append(out.Names, found.Queues...)
	if len(found.Unknown) == 0 {
		n := len(found.Queues)
		out.Queues = &n
	}
	if found.ByHeaders {
		out.SampleID = id
		out.Text += "; by the headers of " + id
	}
	return out
}

// messageHeaders are those of stored messages.
func messageHeaders(s *gormstore.Store) headersOf {
	return func(ctx context.Context, id string) (map[string]any, error) {
		row, _, err := s.Show(ctx, id)
		if err != nil {
			return nil, err
		}
		m, err := row.Message()
		return m.Headers, err
	}
}

// of says where the messages of a selection would go, and whether there may be routes that were
// not looked at. Messages for the default exchange, which go to the one queue that they name,
// are left out.
func (r *reaches) of(
	ctx context.Context, p *model.Preview, groups []model.Group, headers headersOf,
) (list []jsonReach, more bool) {
	list = []jsonReach{}
	if r == nil {
		return list, false
	}
	seen := map[[2]string]bool{}
	add := func(exchange, key, id string) {
		if route := [2]string{exchange, key}; exchange != "" && !seen[route] {
			seen[route] = true
			list = append(list, r.route(ctx, exchange, key, id, headers))
		}
	}
	for i := range groups {
		add(groups[i].Exchange, groups[i].RoutingKey, groups[i].SampleID)
	}
	if len(groups) == 0 { // ids alone
		for i := range p.Samples {
			add(p.Samples[i].Exchange, p.Samples[i].RoutingKey, p.Samples[i].ID)
		}
	}
	return list, len(groups) == previewGroups || len(groups) == 0 && p.Rows > len(p.Samples)
}

// copies warns of a sending through exchanges, or is empty.
func copies(list []jsonReach, more bool) string {
	if len(list) == 0 && !more {
		return ""
	}
	return "through an exchange every queue that is bound for the routing key gets another copy, also one that has " +
		"the message already, as after a nack by another queue. A message whose cause is " + model.CodeNoRoute.Words() +
		" had reached none"
}

// printReach writes a line for each route, or one for all where nobody was asked.
func printReach(w io.Writer, list []jsonReach, more bool) {
	if len(list) > 0 && list[0].Text == unasked {
		fmt.Fprintf(w, "how many queues that is: %s\n", unasked)
		return
	}
	for _, r := range list {
		fmt.Fprintf(w, "exchange %q, routing key %q reaches: %s\n", r.Exchange, r.RoutingKey, printable(r.Text))
	}
	if more {
		fmt.Fprintln(w, "there may be other exchanges and routing keys, which were not looked at")
	}
}
