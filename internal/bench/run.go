package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// runner is one run.
type runner struct {
	cfg   Config
	w     *World
	begin time.Time

	naive    *naive
	choices  []RawLoop // what naive's tuning tried
	business *business
	backlogs map[int]*product // by rows that wait; 0 is the main one
	extra    []*product       // more compensators on the main schema

	loops       []loop
	loopRates   [][]float64 // by loop
	publishes   []float64   // each repetition's best
	stores      []float64
	limits      []float64
	figures     []*figure
	repetitions int
	notes       []string
}

// Run measures what cfg says and returns the report; it blocks for minutes, with Quick for
// less than 50 s on a machine that is not busy with something else. It also returns the report when it ends early,
// with an error, so far as it got: a message lost or repeated, servers that cannot be
// reached, a setting that gives up durability (then without a report), or ctx.
func Run(ctx context.Context, cfg Config) (rep *Report, err error) {
	begin := time.Now()
	w, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r := &runner{cfg: w.cfg, w: w, begin: begin, backlogs: map[int]*product{0: w.main}}
	r.loops = w.loops()
	r.loopRates = make([][]float64, len(r.loops))
	err = r.run(ctx)
	rep = r.report()
	err = errors.Join(err, r.close(ctx))
	rep.Seconds = Figure(time.Since(begin).Seconds())
	if err != nil {
		return rep, fmt.Errorf("bench: %w", err)
	}
	return rep, nil
}

func (r *runner) close(ctx context.Context) error {
	var err error
	if r.naive != nil {
		err = r.naive.close()
	}
	if r.business != nil {
		err = errors.Join(err, r.business.close())
	}
	return errors.Join(err, r.w.Close(ctx))
}

func (r *runner) say(format string, args ...any) {
	fmt.Fprintf(r.cfg.Progress, "%6.1fs "+format+"\n", append([]any{time.Since(r.begin).Seconds()}, args...)...)
}

func (r *runner) run(ctx context.Context) error {
	for _, s := range r.w.Settings {
		r.say("%s: %s = %s", r.w.server, s.Name, s.Value)
	}
	if err := r.warm(ctx); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if r.cfg.has("naive") {
		if err := r.tuneNaive(ctx); err != nil {
			return fmt.Errorf("tune naive: %w", err)
		}
	}
	if r.cfg.Quick {
		r.notes = append(r.notes, fmt.Sprintf("quick: runs of %d messages, drains of %d, at most %d rows waiting, "+
			"limits measured once a repetition: figures scatter more than in a full run",
			r.cfg.Messages, r.cfg.drainSize(), r.cfg.backlogs()[0]))
	}
	blocks := r.plan(ctx)
	for _, b := range blocks {
		r.figures = append(r.figures, b.figures...)
	}
	for _, b := range blocks {
		if err := r.block(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// warm runs everything once in small, so that pages, plans and connections are there.
func (r *runner) warm(ctx context.Context) error {
	if _, err := r.w.Publish(ctx, 16, 200); err != nil {
		return err
	}
	_, err := r.w.Drain(ctx, 200)
	return err
}

// block measures its figures repetition by repetition.
func (r *runner) block(ctx context.Context, b block) error {
	if b.prepare != nil {
		if err := b.prepare(); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	repetitions := r.cfg.Repetitions
	if b.once {
		repetitions = 1
	}
	for i := range repetitions {
		err := r.repetition(ctx, b, i, repetitions)
		if errors.Is(err, errBudget) {
			r.notes = append(r.notes,
				fmt.Sprintf("quick: ended in repetition %d of %d, to stay under 50 s", i+1, repetitions))
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		r.repetitions = max(r.repetitions, i+1)
	}
	return nil
}

// errBudget ends a quick run early.
var errBudget = errors.New("no time left")

// spent reports whether a quick run has had its time; the first repetition is always whole.
func (r *runner) spent(repetition int) bool {
	return r.cfg.Quick && repetition > 0 && time.Since(r.begin) > quickBudget
}

func (r *runner) repetition(ctx context.Context, b block, i, of int) error {
	if r.spent(i) {
		return errBudget
	}
	r.say("%s, repetition %d of %d", b.name, i+1, of)
	lim, err := r.raw(ctx)
	if err != nil {
		return err
	}
	t := &turn{limits: lim, rates: map[turnKey]float64{}}
	for _, f := range b.figures {
		if r.spent(i) {
			return errBudget
		}
		stop, err := r.profile(f, i == of-1)
		if err != nil {
			return err
		}
		if err := errors.Join(f.run(f, t), stop()); err != nil {
			return fmt.Errorf("%s, %d callers: %w", f.name, f.callers, err)
		}
		r.say("  %s, %d callers, %d waiting: %.0f/s", f.name, f.callers, f.waiting, f.rates[len(f.rates)-1])
	}
	return nil
}
