package main

import (
	"bytes"
	"fmt"
	"strings"
)

// The measures of a plot, in pixels.
const (
	plotWidth  = 900
	plotHeight = 130 // of one series
	plotLeft   = 110
	plotGap    = 30
)

// plot draws each series over time, from zero, as SVG.
func plot(samples []sample) []byte {
	all := series()
	height := len(all)*(plotHeight+plotGap) + plotGap
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="system-ui, sans-serif" font-size="13">`+"\n", plotWidth, height, plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, height)
	end := max(samples[len(samples)-1].Seconds, 1)
	for i, s := range all {
		top := plotGap + i*(plotHeight+plotGap)
		largest := 1e-9
		for _, x := range samples {
			largest = max(largest, s.of(x))
		}
		var points strings.Builder
		for _, x := range samples {
			fmt.Fprintf(&points, "%.1f,%.1f ", plotLeft+x.Seconds/end*(plotWidth-plotLeft-20),
				float64(top+plotHeight)-s.of(x)/largest*plotHeight)
		}
		fmt.Fprintf(&b, `<text x="8" y="%d" font-weight="600">%s</text>`+"\n", top+14, s.name)
		fmt.Fprintf(&b, `<text x="8" y="%d" fill="#57606a">max %.4g %s</text>`+"\n", top+32, largest, s.unit)
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#8c959f"/>`+"\n",
			plotLeft, top+plotHeight, plotWidth-20, top+plotHeight)
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="#0969da" stroke-width="1.5"/>`+"\n", points.String())
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#57606a" text-anchor="end">%.0f s</text>`+"\n",
		plotWidth-20, height-8, end)
	b.WriteString("</svg>\n")
	return b.Bytes()
}
