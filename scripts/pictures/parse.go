package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

type point struct{ x, y int }

type box struct {
	kind       string
	x, y, w, h int
	lines      []string
}

// end is where an arrow begins or ends: on a side of a box.
type end struct {
	at   point
	side string
}

type arrow struct {
	from, to end
	label    []string
	dashed   bool
}

type note struct {
	at    point
	lines []string
}

// picture is a text that was read.
type picture struct {
	width, height int
	groups, boxes []box
	arrows        []arrow
	notes         []note
	named         map[string]box
}

var (
	word   = regexp.MustCompile(`"[^"]*"|[^\s"]+`)
	anchor = regexp.MustCompile(`^(\w+)\.(left|right|top|bottom)([+-]\d+)?$`)
)

// parse reads a picture. An error names the line.
func parse(text string) (*picture, error) {
	p := &picture{named: map[string]box{}}
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := word.FindAllString(line, -1)
		for i := range words {
			words[i] = strings.Trim(words[i], `"`)
		}
		if err := p.add(words[0], words[1:]); err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", number, words[0], err)
		}
	}
	if p.width == 0 || p.height == 0 {
		return nil, errors.New("no size")
	}
	return p, nil
}

// least is how many words a thing has at least.
var least = map[string]int{"size": 2, "group": 5, "box": 7, "arrow": 3, "text": 3}

func (p *picture) add(thing string, words []string) error {
	if least[thing] == 0 {
		return errors.New("there is no such thing")
	}
	if len(words) < least[thing] {
		return fmt.Errorf("%d words, want %d or more", len(words), least[thing])
	}
	switch thing {
	case "size":
		n, err := numbers(words)
		if err != nil {
			return err
		}
		p.width, p.height = n[0], n[1]
	case "group":
		b, err := newBox("group", words)
		if err != nil {
			return err
		}
		p.groups = append(p.groups, b)
	case "box":
		b, err := newBox(words[1], words[2:])
		if err != nil {
			return err
		}
		p.boxes, p.named[words[0]] = append(p.boxes, b), b
	case "arrow":
		return p.addArrow(words)
	case "text":
		n, err := numbers(words[:2])
		if err != nil {
			return err
		}
		p.notes = append(p.notes, note{point{n[0], n[1]}, words[2:]})
	}
	return nil
}

func newBox(kind string, words []string) (box, error) {
	if _, ok := looks[kind]; !ok {
		return box{}, fmt.Errorf("there is no kind %q", kind)
	}
	n, err := numbers(words[:4])
	if err != nil {
		return box{}, err
	}
	return box{kind: kind, x: n[0], y: n[1], w: n[2], h: n[3], lines: words[4:]}, nil
}

func (p *picture) addArrow(words []string) error {
	from, err := p.end(words[0])
	if err != nil {
		return err
	}
	to, err := p.end(words[1])
	if err != nil {
		return err
	}
	a := arrow{from: from, to: to, label: strings.Split(words[2], "|")}
	if len(words) > 3 {
		if words[3] != "dashed" {
			return fmt.Errorf("%q is not dashed", words[3])
		}
		a.dashed = true
	}
	p.arrows = append(p.arrows, a)
	return nil
}

// end finds the middle of a box's side, moved along it.
func (p *picture) end(text string) (end, error) {
	m := anchor.FindStringSubmatch(text)
	if m == nil {
		return end{}, fmt.Errorf("%q is not NAME.SIDE", text)
	}
	b, ok := p.named[m[1]]
	if !ok {
		return end{}, fmt.Errorf("there is no box %q above", m[1])
	}
	move := 0
	if m[3] != "" {
		var err error
		if move, err = strconv.Atoi(m[3]); err != nil {
			return end{}, err
		}
	}
	at := map[string]point{
		"left": {b.x, b.y + b.h/2 + move}, "right": {b.x + b.w, b.y + b.h/2 + move},
		"top": {b.x + b.w/2 + move, b.y}, "bottom": {b.x + b.w/2 + move, b.y + b.h},
	}[m[2]]
	return end{at, m[2]}, nil
}

func numbers(words []string) ([]int, error) {
	all := make([]int, 0, len(words))
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", w)
		}
		all = append(all, n)
	}
	return all, nil
}
