package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// lettersSeen is what an act on dead letters would touch.
type lettersSeen struct {
	model.LetterPreview
	ids        int
	stuck      int // of those that match: cannot be sent again as they are
	warnings   []string
	routes     []jsonReach
	moreRoutes bool
}

func (p *lettersSeen) rows() int         { return p.Rows }
func (p *lettersSeen) warning() string   { return strings.Join(p.warnings, "\nWarning: ") }
func (p *lettersSeen) reach(w io.Writer) { printReach(w, p.routes, p.moreRoutes) }

// jsonLetterPreview is the documented result of the verbs on dead letters without --yes.
type jsonLetterPreview struct {
	Verb         string            `json:"verb"`
	Applied      bool              `json:"applied"`
	DeadLetters  int               `json:"dead_letters"`
	More         bool              `json:"more"`
	Bytes        int64             `json:"bytes"`
	Unreplayable int               `json:"unreplayable"`
	Old          int               `json:"old"`
	Causes       []jsonLetterCount `json:"causes"`
	Samples      []jsonLetter      `json:"samples"`
	Warning      string            `json:"warning"`
	Reach        []jsonReach       `json:"reach"`
	Command      string            `json:"command"`
}

type jsonLetterCount struct {
	Status      string `json:"status"`
	Queue       string `json:"queue"`
	Cause       string `json:"cause"`
	DeadLetters int    `json:"dead_letters"`
}

func (p *lettersSeen) preview(do *act, command string) any {
	out := jsonLetterPreview{
		Verb: do.verb, DeadLetters: p.Rows, More: p.More, Bytes: p.Bytes, Unreplayable: p.stuck, Old: p.Old,
		Causes: []jsonLetterCount{}, Samples: []jsonLetter{}, Warning: p.warning(), Reach: p.routes, Command: command,
	}
	for _, c := range p.Causes {
		out.Causes = append(out.Causes, jsonLetterCount{string(c.Status), model.Readable(c.Queue), c.Cause, c.Rows})
	}
	for i := range p.Samples {
		out.Samples = append(out.Samples, letterJSON(&p.Samples[i]))
	}
	return out
}

func (p *lettersSeen) show(a *app, do *act, now int64) error {
	for _, note := range otherLetters(p.Others, p.Rows+p.stuck, p.ids) {
		fmt.Fprintln(a.stderr, note)
	}
	if p.stuck > 0 {
		fmt.Fprintln(a.stderr, stuck(p.stuck))
	}
	if p.Rows == 0 {
		fmt.Fprintf(a.stdout, "nothing to %s: no dead letter matches\n", do.verb)
		return nil
	}
	fmt.Fprintf(a.stdout, "would %s %s, %d bytes\n", do.verb, counted(p.Rows, deadLetter), p.Bytes)
	if p.More {
		fmt.Fprintf(a.stdout, "more match: the rest is for further calls, or raise --max\n")
	}
	fmt.Fprintln(a.stdout)
	for _, c := range p.Causes[:min(len(p.Causes), previewGroups)] {
		fmt.Fprintf(a.stdout, "%d %s of queue %s, cause %s\n", c.Rows, c.Status, readable(c.Queue), printable(c.Cause))
	}
	if more := len(p.Causes) - previewGroups; more > 0 {
		fmt.Fprintf(a.stdout, "and %d more groups\n", more)
	}
	fmt.Fprintf(a.stdout, "\nsamples:\n")
	return printLetters(a.stdout, p.Samples, now)
}
