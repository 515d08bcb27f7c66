package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable prints the report for people.
func (rep *Report) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, %s queue, bodies of %d bytes, %d repetitions, %d processors, %s\n",
		rep.Server, rep.Queue, rep.Body, rep.Repetitions, rep.CPUs, rep.Go)
	for _, s := range rep.Settings {
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, s.Value)
	}
	for _, n := range rep.Notes {
		fmt.Fprintln(w, n)
	}
	fmt.Fprintln(w, "\nRAW\tMESSAGES/S")
	for _, l := range rep.RawLoops {
		fmt.Fprintf(w, "%s\t%s\n", l.Name, l.Rate.text(0))
	}
	fmt.Fprintf(w, "R_pub, best of each repetition\t%s\nR_db, best of each repetition\t%s\n",
		rep.RawPublish.text(0), rep.RawStore.text(0))
	fmt.Fprintf(w, "limit L = 1 / (1/R_pub + 1/R_db)\t%s\nmin(R_pub, R_db)\t%s\n",
		rep.Limit.text(0), rep.LimitMin.text(0))
	for _, c := range rep.NaiveChoices {
		fmt.Fprintf(w, "naive tried with %s\t%s\n", c.Name, c.Rate.text(0))
	}
	if rep.Naive != "" {
		fmt.Fprintf(w, "naive runs with %s, the product's pool\n", rep.Naive)
	}
	rep.rates(w)
	rep.latencies(w)
	fmt.Fprintf(w, "\nEvery run was checked: lost %d, repeats %d, unknown %d. %s s in all.\n",
		rep.Lost, rep.Repeats, rep.Unknown, rep.Seconds.text(0))
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func (rep *Report) rates(w io.Writer) {
	fmt.Fprintln(w, "\nWORKLOAD\tCALLERS\tWAITING\tRUNS\tMESSAGES\tMESSAGES/S\tOF L\tOF NAIVE\tOF REF\tDEFERRED\t"+
		"PEAK MIB\tALLOCS/MSG\tBYTES/MSG\tSTATEMENTS/MSG")
	for _, l := range rep.Workloads {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n",
			l.Name, l.Callers, l.Waiting, l.Repetitions, l.Messages, l.Rate.text(0), l.OfLimit.text(2),
			l.OfNaive.text(1), l.OfReference.text(2), l.Deferred, (l.PeakRSS / (1 << 20)).text(0),
			l.Allocs.text(0), l.AllocBytes.text(0), l.Statements.text(3))
	}
	for _, l := range rep.Workloads {
		if l.Reference != "" {
			fmt.Fprintf(w, "  ref of %s, %d callers, %d waiting: %s\n", l.Name, l.Callers, l.Waiting, l.Reference)
		}
	}
}

func (rep *Report) latencies(w io.Writer) {
	fmt.Fprintln(w, "\nMICROSECONDS\tCALLERS\tWHAT\tP50\tP95\tP99")
	for _, l := range rep.Workloads {
		for _, row := range []struct {
			what          string
			p50, p95, p99 Figure
		}{
			{"Publish", l.PublishP50, l.PublishP95, l.PublishP99},
			{"confirm", l.ConfirmP50, l.ConfirmP95, l.ConfirmP99},
			{"raw insert", l.RawInsertP50, l.RawInsertP95, l.RawInsertP99},
			{"raw confirmed publish", l.RawPublishP50, l.RawPublishP95, l.RawPublishP99},
		} {
			if row.p50 == row.p50 { // not NaN
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n",
					l.Name, l.Callers, row.what, row.p50.text(0), row.p95.text(0), row.p99.text(0))
			}
		}
	}
}
