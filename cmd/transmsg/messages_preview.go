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
	Command  string      `json:"command"`
}

type jsonCause struct {
	Status   string `json:"status"`
	Code     string `json:"code"`
	Messages int    `json:"messages"`
}

// previewAct shows what an act would touch and the command that does it.
func (a *app) previewAct(
	ctx context.Context, s *gormstore.Store, sel model.Selection, do act, command string,
) error {
	p, err := s.Select(ctx, sel)
	if err != nil {
		return err
	}
	var groups []model.Group
	if len(sel.IDs) == 0 && p.Rows > 0 { // groups go by the filter alone
		f := sel.Filter
		f.Limit = previewGroups
		if groups, err = s.Groups(ctx, f); err != nil {
			return err
		}
	}
	if a.jsonOut {
		return printJSON(a.stdout, previewJSON(&p, groups, do.verb, command))
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	if err := a.printPreview(&p, groups, sel, do, now); err != nil {
		return err
	}
	if p.Rows > 0 {
		fmt.Fprintf(a.stdout, "\nNothing was changed. To %s:\n  %s\n", do.verb, command)
	}
	return nil
}

func previewJSON(p *model.Preview, groups []model.Group, verb, command string) jsonPreview {
	out := jsonPreview{
		Verb: verb, Messages: p.Rows, More: p.More, Bytes: p.Bytes, Leased: p.Leased,
		Causes: []jsonCause{}, Groups: []jsonGroup{}, Samples: []jsonRow{}, Command: command,
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
			fmt.Fprintf(a.stdout, "%d %s, last cause %s\n", c.Rows, c.Status, printable(string(c.Code)))
		}
	}
	fmt.Fprintf(a.stdout, "\nsamples:\n")
	return printRows(a.stdout, p.Samples, now)
}
