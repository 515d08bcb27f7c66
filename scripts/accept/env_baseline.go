package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/transmsg/transmsg/store/gormstore"
)

const (
	// baselineLimit is for retired channels, the connection for suspects and broken dials
	// to end.
	baselineLimit = time.Minute
	// spareGoroutines is what a process may have beyond its baseline: its pool of database
	// connections grows with use, by up to two goroutines for each.
	spareGoroutines = 2 * gormstore.DefaultMaxOpenConns
)

// Connections that the world's processes have, by the name that the broker shows.
const (
	publisherLink   = "transmsg"
	compensatorLink = "transmsg compensator"
)

// resources are what a publisher and a compensator hold.
type resources struct {
	Publisher   int            `json:"publisher_goroutines"`
	Compensator int            `json:"compensator_goroutines"`
	Channels    map[string]int `json:"channels"` // of each connection of ours by name, "NAME #2" for a second
}

// links returns the connections of ours at the private broker with their channels, and
// their ports. Those of the check itself have no name.
func (w *world) links() (channels map[string]int, ports map[string]int, err error) {
	out, err := w.node.Ctl("list_connections", "--formatter", "json", "peer_port", "channels", "client_properties")
	if err != nil {
		return nil, nil, err
	}
	var list []struct {
		Port       int     `json:"peer_port"`
		Channels   int     `json:"channels"`
		Properties [][]any `json:"client_properties"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, nil, fmt.Errorf("list_connections: %w: %.200q", err, out)
	}
	channels, ports = map[string]int{}, map[string]int{}
	for _, l := range list {
		name := ""
		for _, p := range l.Properties {
			if len(p) == 3 && p[0] == "connection_name" {
				name = fmt.Sprint(p[2])
			}
		}
		if !strings.HasPrefix(name, "transmsg") {
			continue
		}
		unique := name
		for n := 2; ports[unique] != 0; n++ {
			unique = fmt.Sprintf("%s #%d", name, n)
		}
		channels[unique], ports[unique] = l.Channels, l.Port
	}
	return channels, ports, nil
}

// holds looks at what the publisher and the compensator at addr hold.
func (w *world) holds(ctx context.Context, pub *steady, addr string) (r resources, err error) {
	if r.Publisher, err = pub.goroutines(); err != nil {
		return r, err
	}
	n, err := metric(ctx, addr, "go_goroutines")
	if err != nil {
		return r, err
	}
	r.Compensator = int(n)
	r.Channels, _, err = w.links()
	return r, err
}

// backAtBaseline waits until both hold what they held before, and records what does not
// come back. Neither has work meanwhile.
func (w *world) backAtBaseline(ctx context.Context, pub *steady, addr string, before resources) (resources, error) {
	var now resources
	err := until(ctx, baselineLimit, "publisher and compensator hold what they held before",
		func(ctx context.Context) (ok bool, err error) {
			now, err = w.holds(ctx, pub, addr)
			return now.Publisher <= before.Publisher+spareGoroutines &&
				now.Compensator <= before.Compensator+spareGoroutines && maps.Equal(now.Channels, before.Channels), err
		})
	if ctx.Err() != nil {
		return now, err
	}
	w.Breaches.Check(err == nil, "%v: before %+v, now %+v", err, before, now)
	return now, nil
}

// oneEach checks that a baseline is one: a connection for each role, each with its channels.
func (w *world) oneEach(r resources) {
	w.Breaches.Equal("connections", slices.Sorted(maps.Keys(r.Channels)), []string{publisherLink, compensatorLink})
	w.Breaches.AtLeast("goroutines of the publisher", int64(r.Publisher), 5)
	w.Breaches.AtLeast("goroutines of the compensator", int64(r.Compensator), 5)
}
