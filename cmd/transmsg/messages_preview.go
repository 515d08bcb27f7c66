package main

import (
	"context"
	"fmt"
	"io"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// previewGroups bounds the groups that a preview shows.
const previewGroups = 20

// jsonPreview is the documented result of replay and discard without --yes.
type jsonPreview struct {
	Verb     string      `json:"verb"`
	Applied  bool        `json:"applied"`
	Messages int         `json:"messages"`
	More     bool        `json:"more"`
	Bytes    int64       `json:"bytes"`
	Leased   int         `json:"leased"`
	Causes   []jsonCause `json:"causes"`
	Groups   []jsonGroup `json:"groups"`
	Samples  []jsonRow   `json:"samples"`
	Warning  string      `json:"warning"`
	Reach    []jsonReach `json:"reach"`
	Command  string      `json:"command"`
}

type jsonCause struct {
	Status   string `json:"status"`
	Code     string `json:"code"`
	Messages int    `json:"messages"`
}

// messagesSeen is what an act on messages would touch.
type messagesSeen struct {
	model.Preview
	groups []model.Group
	ids    int
	routes []jsonReach
	more   bool // there may be routes that were not looked at
}

func (m *messageRows) look(ctx context.Context, s *gormstore.Store, r *reaches) (seen, error) {
	p, groups, err := selected(ctx, s, m.sel)
	if err != nil {
		return nil, err
	}
	found := &messagesSeen{Preview: p, groups: groups, ids: len(m.sel.IDs)}
	found.routes, found.more = r.of(ctx, &p, groups, messageHeaders(s))
	return found, nil
}

func (p *messagesSeen) rows() int         { return p.Rows }
func (p *messagesSeen) warning() string   { return copies(p.routes, p.more) }
func (p *messagesSeen) reach(w io.Writer) { printReach(w, p.routes, p.more) }

// selected is what a selection holds, and its groups where it has no ids: groups go by the
// filter alone.
func selected(
	ctx context.Context, s *gormstore.Store, sel model.Selection,
) (p model.Preview, groups []model.Group, err error) {
	if p, err = s.Select(ctx, sel); err != nil || len(sel.IDs) > 0 || p.Rows == 0 {
		return p, nil, err
	}
	f := sel.Filter
	f.Limit = previewGroups
	groups, err = s.Groups(ctx, f)
	return p, groups, err
}

func (p *messagesSeen) preview(do *act, command string) any {
	out := jsonPreview{
		Verb: do.verb, Messages: p.Rows, More: p.More, Bytes: p.Bytes, Leased: p.Leased,
		Causes: []jsonCause{}, Groups: []jsonGroup{}, Samples: []jsonRow{}, Command: command,
		Warning: p.warning(), Reach: p.routes,
	}
	for _, c := range p.Causes {
		out.Causes = append(out.Causes, jsonCause{string(c.Status), string(c.Code), c.Rows})
	}
	for i := range p.groups {
		out.Groups = append(out.Groups, groupJSON(&p.groups[i]))
	}
	for i := range p.Samples {
		out.Samples = append(out.Samples, rowJSON(&p.Samples[i]))
	}
	return out
}

func (p *messagesSeen) show(a *app, do *act, now int64) error {
	if p.Rows < p.ids {
		fmt.Fprintln(a.stderr, missing(p.ids-p.Rows, p.ids))
	}
	if p.Rows == 0 {
		fmt.Fprintf(a.stdout, "nothing to %s: no message matches\n", do.verb)
		return nil
	}
	fmt.Fprintf(a.stdout, "would %s %s, %d bytes\n", do.verb, count(p.Rows), p.Bytes)
	if p.More {
		fmt.Fprintf(a.stdout, "more match: the rest is for further calls, or raise --max\n")
	}
	if p.Leased > 0 {
		fmt.Fprintf(a.stdout, "%d of them are being sent at the moment and would stay\n", p.Leased)
	}
	fmt.Fprintln(a.stdout)
	if len(p.groups) > 0 {
		if err := printGroups(a.stdout, p.groups, now); err != nil {
			return err
		}
	} else {
		for _, c := range p.Causes {
			fmt.Fprintf(a.stdout, "%d %s, last cause %s\n", c.Rows, c.Status, printable(c.Code.Words()))
		}
	}
	fmt.Fprintf(a.stdout, "\nsamples:\n")
	return printRows(a.stdout, p.Samples, now)
}
