package main

import (
	"context"
	"fmt"

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

// previewAct shows what an act would touch and the command that does it.
func (a *app) previewAct(
	ctx context.Context, s *gormstore.Store, sel model.Selection, do act, command string, r *reaches,
) error {
	p, groups, err := selected(ctx, s, sel)
	if err != nil {
		return err
	}
	reach, more := r.of(ctx, &p, groups)
	if a.jsonOut {
		return printJSON(a.stdout, previewJSON(&p, groups, do, command, reach, more))
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	if err := a.printPreview(&p, groups, sel, do, now); err != nil {
		return err
	}
	if warning := copies(reach, more); warning != "" && p.Rows > 0 {
		fmt.Fprintf(a.stdout, "\nWarning: %s\n", warning)
		printReach(a.stdout, reach, more)
	}
	if p.Rows > 0 {
		fmt.Fprintf(a.stdout, "\nNothing was changed. To %s:\n  %s\n", do.verb, command)
	}
	return nil
}

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

func previewJSON(
	p *model.Preview, groups []model.Group, do act, command string, reach []jsonReach, more bool,
) jsonPreview {
	out := jsonPreview{
		Verb: do.verb, Messages: p.Rows, More: p.More, Bytes: p.Bytes, Leased: p.Leased,
		Causes: []jsonCause{}, Groups: []jsonGroup{}, Samples: []jsonRow{}, Command: command,
		Warning: copies(reach, more), Reach: reach,
	}
	for _, c := range p.Causes {
		out.Causes = append(out.Causes, jsonCause{string(c.Status), string(c.Code), c.Rows})
	}
	for i := range groups {
		out.Groups = append(out.Groups, groupJSON(&groups[i]))
	}
	for i := range p.Samples {
		out.Samples = append(out.Samples, rowJSON(&p.Samples[i]))
	}
	return out
}

func (a *app) printPreview(
	p *model.Preview, groups []model.Group, sel model.Selection, do act, now int64,
) error {
	if ids := len(sel.IDs); p.Rows < ids {
		fmt.Fprintf(a.stderr, "%d of the %d ids: no such message in this state; see transmsg messages show ID\n",
			ids-p.Rows, ids)
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
	if len(groups) > 0 {
		if err := printGroups(a.stdout, groups, now); err != nil {
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
