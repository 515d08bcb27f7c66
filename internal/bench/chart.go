package bench

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// Chart is a bar chart, written as SVG: it stands in a README and is made from figures
// alone.
type Chart struct {
	Title    string
	Subtitle string
	Unit     string
	Bars     []Bar
	// Line is drawn across the bars at its value, with its label; none without a value.
	Line Bar
}

// Bar is one bar.
type Bar struct {
	Label string
	Value float64
	// Note is printed behind the value.
	Note string
	// Ours says that it is the product's, in its own color.
	Ours bool
}

// The measures of a chart, in pixels.
const (
	chartWidth = 860
	labelWidth = 250
	noteWidth  = 190
	barHeight  = 18
	barStep    = 26
	chartTop   = 70
)

// SVG draws the chart. Bars without a value (NaN) are left out.
func (c Chart) SVG() []byte {
	var bars []Bar
	largest := max(c.Line.Value, 1)
	for _, b := range c.Bars {
		if !math.IsNaN(b.Value) {
			bars = append(bars, b)
			largest = max(largest, b.Value)
		}
	}
	height := chartTop + barStep*len(bars) + 30
	scale := float64(chartWidth-labelWidth-noteWidth) / largest
	var s bytes.Buffer
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="system-ui, sans-serif" font-size="13">`+"\n", chartWidth, height, chartWidth, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	text(&s, 16, 28, `font-size="17" font-weight="600"`, c.Title)
	text(&s, 16, 48, `fill="#57606a"`, c.Subtitle)
	for i, b := range bars {
		y := chartTop + i*barStep
		fill := "#8c959f"
		if b.Ours {
			fill = "#0969da"
		}
		width := b.Value * scale
		text(&s, labelWidth-8, y+14, `text-anchor="end"`, b.Label)
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n",
			labelWidth, y, width, barHeight, fill)
		text(&s, labelWidth+int(width)+6, y+14, "", fmt.Sprintf("%.0f %s", b.Value, b.Note))
	}
	if c.Line.Value > 0 {
		x := labelWidth + int(c.Line.Value*scale)
		bottom := chartTop + barStep*len(bars)
		fmt.Fprintf(&s, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#cf222e" stroke-dasharray="4 3"/>`+"\n",
			x, chartTop-6, x, bottom)
		text(&s, x, bottom+14, `fill="#cf222e" text-anchor="middle"`, c.Line.Label)
	}
	text(&s, labelWidth, height-4, `fill="#57606a"`, c.Unit)
	s.WriteString("</svg>\n")
	return s.Bytes()
}

func text(s *bytes.Buffer, x, y int, attributes, content string) {
	fmt.Fprintf(s, `<text x="%d" y="%d" %s>`, x, y, attributes)
	_ = xml.EscapeText(s, []byte(content)) // a buffer takes every write
	s.WriteString("</text>\n")
}

// Chart draws the workloads' rates, with the limit across them.
func (rep *Report) Chart() Chart {
	c := Chart{
		Title: "transmsg-lab bench: messages per second",
		Subtitle: fmt.Sprintf("%s, %s queue, %d bytes, medians of %d, %d processors",
			rep.Server, rep.Queue, rep.Body, rep.Repetitions, rep.CPUs),
		Unit: "messages per second",
		Line: Bar{Label: "limit L " + rep.Limit.text(0), Value: zeroNaN(float64(rep.Limit))},
	}
	for _, w := range rep.Workloads {
		label := fmt.Sprintf("%s, %d callers", w.Name, w.Callers)
		if w.Name == "drain" {
			label = fmt.Sprintf("drain, %d compensators, %d rows", w.Callers, w.Messages)
		}
		if w.Waiting > 0 {
			label += fmt.Sprintf(", %d waiting", w.Waiting)
		}
		note := ""
		if w.Name != "naive" && w.OfLimit == w.OfLimit { // not NaN
			note = fmt.Sprintf("(%s L)", w.OfLimit.text(2))
		}
		c.Bars = append(c.Bars, Bar{Label: label, Value: float64(w.Rate), Note: note, Ours: w.Name != "naive"})
	}
	return c
}
