package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// look is how a kind of box is drawn.
type look struct{ fill, stroke string }

var looks = map[string]look{
	"group":  {"#f6f8fa", "#d0d7de"},
	"ours":   {"#ddf4ff", "#0969da"},
	"yours":  {"#ffffff", "#57606a"},
	"server": {"#fff8c5", "#9a6700"},
	"state":  {"#ffffff", "#0969da"},
	"good":   {"#dafbe1", "#1a7f37"},
	"bad":    {"#ffebe9", "#cf222e"},
}

const (
	lineHeight = 18
	ink        = "#1f2328"
	faint      = "#57606a"
)

func (p *picture) svg() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13">`+"\n", p.width, p.height, p.width, p.height)
	fmt.Fprintf(&b, `<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" `+
		`orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="%s"/></marker></defs>`+"\n", faint)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", p.width, p.height)
	for _, g := range p.groups {
		rectangle(&b, g, 10)
		words(&b, point{g.x + 12, g.y + 22}, g.lines, "start", faint, true)
	}
	for _, a := range p.arrows {
		line(&b, a)
	}
	for _, x := range p.boxes {
		rectangle(&b, x, 6)
		top := x.y + x.h/2 - (len(x.lines)-1)*lineHeight/2 + 5
		words(&b, point{x.x + x.w/2, top}, x.lines, "middle", ink, true)
	}
	for _, a := range p.arrows { // labels last, so that no line crosses one
		caption(&b, a)
	}
	for _, n := range p.notes {
		words(&b, n.at, n.lines, "start", faint, false)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func rectangle(b *bytes.Buffer, x box, round int) {
	l := looks[x.kind]
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d" fill="%s" stroke="%s"/>`+"\n",
		x.x, x.y, x.w, x.h, round, l.fill, l.stroke)
}

// words writes lines below each other; the first is bold where there is a title.
func words(b *bytes.Buffer, at point, lines []string, anchor, color string, title bool) {
	for i, l := range lines {
		weight := "400"
		if title && i == 0 {
			weight = "600"
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" fill="%s" font-weight="%s">%s</text>`+"\n",
			at.x, at.y+i*lineHeight, anchor, color, weight, html.EscapeString(l))
	}
}

// path is where an arrow goes: straight, around one corner, or around two half-way.
func path(a arrow) []point {
	f, t := a.from.at, a.to.at
	flat := func(side string) bool { return side == "left" || side == "right" }
	switch {
	case f.x == t.x || f.y == t.y:
		return []point{f, t}
	case flat(a.from.side) && flat(a.to.side):
		x := (f.x + t.x) / 2
		return []point{f, {x, f.y}, {x, t.y}, t}
	case flat(a.from.side):
		return []point{f, {t.x, f.y}, t}
	case flat(a.to.side):
		return []point{f, {f.x, t.y}, t}
	default:
		y := (f.y + t.y) / 2
		return []point{f, {f.x, y}, {t.x, y}, t}
	}
}

func line(b *bytes.Buffer, a arrow) {
	var points []string
	for _, p := range path(a) {
		points = append(points, fmt.Sprintf("%d,%d", p.x, p.y))
	}
	dash := ""
	if a.dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"%s marker-end="url(#tip)"/>`+"\n",
		strings.Join(points, " "), faint, dash)
}

// caption writes an arrow's label on the middle of its longest part.
func caption(b *bytes.Buffer, a arrow) {
	points := path(a)
	best, from, to := -1, point{}, point{}
	for i := 1; i < len(points); i++ {
		p, q := points[i-1], points[i]
		if length := max(p.x-q.x, q.x-p.x) + max(p.y-q.y, q.y-p.y); length > best {
			best, from, to = length, p, q
		}
	}
	middle := point{(from.x + to.x) / 2, (from.y + to.y) / 2}
	if from.x == to.x { // beside an upright part
		top := middle.y - (len(a.label)-1)*lineHeight/2 + 4
		words(b, point{middle.x + 8, top}, a.label, "start", ink, false)
		return
	}
	words(b, point{middle.x, middle.y - 7 - (len(a.label)-1)*lineHeight}, a.label, "middle", ink, false)
}
