package bench

import "math"

// figure collects the repetitions of one workload.
type figure struct {
	name               string
	callers            int
	waiting            int
	messages           int
	reference          string
	run                func(f *figure, t *turn) error
	rates              []float64
	ofLimit            []float64
	ofNaive            []float64
	ofReference        []float64
	publish, confirm   []Percentiles
	insert, rawPublish []Percentiles
	deferred           int
	usages             []Usage
	statements         []float64
}

// turn is one repetition of a block: its raw limits, and what figures that ran before
// left for those that compare themselves with them.
type turn struct {
	limits limits
	rates  map[turnKey]float64
}

type turnKey struct {
	name    string
	callers int
	waiting int
}

// rate is that of a figure with no row waiting, NaN where it was not measured.
func (t *turn) rate(name string, callers int) float64 {
	if r, ok := t.rates[turnKey{name, callers, 0}]; ok {
		return r
	}
	return math.NaN()
}

// add notes one repetition's rate.
func (f *figure) add(t *turn, rate float64) {
	f.rates = append(f.rates, rate)
	f.ofLimit = append(f.ofLimit, ratio(rate, t.limits.limit()))
	t.rates[turnKey{f.name, f.callers, f.waiting}] = rate
}

// addOutcome notes one repetition of the product.
func (f *figure) addOutcome(t *turn, o *outcome) {
	f.add(t, o.rate())
	f.messages = o.n
	f.deferred += o.deferred
	f.usages = append(f.usages, o.usage)
	if o.statements > 0 {
		f.statements = append(f.statements, o.statements)
	}
	if o.publish != nil {
		f.publish = append(f.publish, percentiles(o.publish))
		f.confirm = append(f.confirm, percentiles(o.confirm))
	}
}

// compare notes one repetition's ratios to others of the same turn; what was not measured
// is left out.
func compare(list *[]float64, a, b float64) {
	if r := ratio(a, b); !math.IsNaN(r) {
		*list = append(*list, r)
	}
}

func (f *figure) workload() Workload {
	peak := math.NaN()
	var allocs, bytes []float64
	for _, u := range f.usages {
		if u.PeakRSS > 0 {
			peak = max(float64(u.PeakRSS), zeroNaN(peak))
		}
		allocs, bytes = append(allocs, u.Allocs), append(bytes, u.Bytes)
	}
	w := Workload{
		Name: f.name, Callers: f.callers, Waiting: f.waiting, Messages: f.messages, Repetitions: len(f.rates),
		Rate: median(f.rates), OfLimit: median(f.ofLimit), OfNaive: median(f.ofNaive),
		OfReference: median(f.ofReference), Reference: f.reference, Deferred: f.deferred,
		PeakRSS: Figure(peak), Allocs: median(allocs), AllocBytes: median(bytes), Statements: median(f.statements),
	}
	w.PublishP50, w.PublishP95, w.PublishP99 = medians(f.publish)
	w.ConfirmP50, w.ConfirmP95, w.ConfirmP99 = medians(f.confirm)
	w.RawInsertP50, w.RawInsertP95, w.RawInsertP99 = medians(f.insert)
	w.RawPublishP50, w.RawPublishP95, w.RawPublishP99 = medians(f.rawPublish)
	return w
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func median(values []float64) Figure { return Figure(Median(values)) }

// medians are the medians of each percentile over the repetitions.
func medians(list []Percentiles) (p50, p95, p99 Figure) {
	var a, b, c []float64
	for _, p := range list {
		a, b, c = append(a, p.P50), append(b, p.P95), append(c, p.P99)
	}
	return median(a), median(b), median(c)
}
