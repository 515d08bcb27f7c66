package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
)

// Report is the result of a run, as JSON and as tables. Rates are messages a second.
type Report struct {
	Server      string    `json:"server"`
	Store       string    `json:"store"` // mysql, postgres or sqlite
	Settings    []Setting `json:"settings"`
	Queue       string    `json:"queue"`
	Body        int       `json:"body"`
	Messages    int       `json:"messages"`
	Repetitions int       `json:"repetitions"`
	Quick       bool      `json:"quick"`
	Notes       []string  `json:"notes"`
	CPUs        int       `json:"cpus"`
	Go          string    `json:"go"`
	Seconds     Figure    `json:"seconds"` // the whole run

	RawPublish Figure    `json:"raw_publish"` // R_pub: the median of each repetition's best loop
	RawStore   Figure    `json:"raw_store"`   // R_db
	Limit      Figure    `json:"limit"`       // L
	LimitMin   Figure    `json:"limit_min"`   // min(R_pub, R_db)
	RawLoops   []RawLoop `json:"raw_loops"`
	Naive      string    `json:"naive_tuning"`
	// NaiveChoices are what the tuning tried, with 64 callers, once each. Those with more
	// connections than the product has are for comparison alone.
	NaiveChoices []RawLoop  `json:"naive_choices"`
	Lost         int        `json:"lost"`
	Repeats      int        `json:"repeats"`
	Unknown      int        `json:"unknown"`
	Workloads    []Workload `json:"workloads"`
}

// RawLoop is the median of one raw loop.
type RawLoop struct {
	Name string `json:"name"`
	Rate Figure `json:"rate"`
}

// Workload is one figure. What does not apply is null.
type Workload struct {
	// Name is naive, publish, batch, tx, latency, drain or growth.
	Name string `json:"name"`
	// Callers of publish and the like; compensators of drain.
	Callers int `json:"callers"`
	// Waiting is how many rows that are not due are in the table besides.
	Waiting     int `json:"waiting"`
	Messages    int `json:"messages"` // of one repetition
	Repetitions int `json:"repetitions"`

	Rate    Figure `json:"rate"`     // median
	OfLimit Figure `json:"of_limit"` // median of rate/L
	OfNaive Figure `json:"of_naive"` // median of rate over naive's with the same callers
	// OfReference is the median ratio to Reference, taken in the same repetition.
	OfReference Figure `json:"of_reference"`
	Reference   string `json:"reference,omitempty"`

	// Microseconds: the call of Publish, until the confirm, and the raw single-row insert and
	// confirmed publish of one message at a time.
	PublishP50    Figure `json:"publish_p50_us"`
	PublishP95    Figure `json:"publish_p95_us"`
	PublishP99    Figure `json:"publish_p99_us"`
	ConfirmP50    Figure `json:"confirm_p50_us"`
	ConfirmP95    Figure `json:"confirm_p95_us"`
	ConfirmP99    Figure `json:"confirm_p99_us"`
	RawInsertP50  Figure `json:"raw_insert_p50_us"`
	RawInsertP95  Figure `json:"raw_insert_p95_us"`
	RawInsertP99  Figure `json:"raw_insert_p99_us"`
	RawPublishP50 Figure `json:"raw_publish_p50_us"`
	RawPublishP95 Figure `json:"raw_publish_p95_us"`
	RawPublishP99 Figure `json:"raw_publish_p99_us"`

	// Deferred is how many messages in all repetitions were left to a compensator.
	Deferred int `json:"deferred"`

	PeakRSS    Figure `json:"peak_rss_bytes"` // the largest of all repetitions
	Allocs     Figure `json:"allocs_per_message"`
	AllocBytes Figure `json:"alloc_bytes_per_message"`
	// Statements is the database's own count, of all its clients: true on a quiet server. Null
	// where it does not tell.
	Statements Figure `json:"statements_per_message"`
}

// Figure is a number that may be missing: NaN is null in JSON and "-" in tables.
type Figure float64

// MarshalJSON rounds to three digits behind the point.
func (f Figure) MarshalJSON() ([]byte, error) {
	v := float64(f)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(math.Round(v*1000) / 1000)
}

// text prints with so many digits, or "-".
func (f Figure) text(digits int) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, float64(f))
}

func (r *runner) report() *Report {
	c := r.cfg
	rep := &Report{
		Server: r.w.server.String(), Store: r.w.server.kind, Settings: r.w.Settings, Queue: c.Queue, Body: c.Body,
		Messages: c.Messages, Repetitions: r.repetitions, Quick: c.Quick, Notes: append([]string{}, r.notes...),
		CPUs: runtime.NumCPU(), Go: runtime.Version(),
		RawPublish: Figure(Median(r.publishes)), RawStore: Figure(Median(r.stores)), Limit: Figure(Median(r.limits)),
		Lost: r.w.Tally.Lost, Repeats: r.w.Tally.Repeats, Unknown: r.w.Tally.Unknown,
		RawLoops: []RawLoop{}, NaiveChoices: append([]RawLoop{}, r.choices...), Workloads: []Workload{},
	}
	rep.LimitMin = min(rep.RawPublish, rep.RawStore)
	if r.naive != nil {
		rep.Naive = r.naive.tuning.String()
	}
	for i, l := range r.loops {
		rep.RawLoops = append(rep.RawLoops, RawLoop{Name: l.name, Rate: Figure(Median(r.loopRates[i]))})
	}
	for _, f := range r.figures {
		if len(f.rates) > 0 {
			rep.Workloads = append(rep.Workloads, f.workload())
		}
	}
	return rep
}
