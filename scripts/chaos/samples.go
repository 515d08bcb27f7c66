package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	sampleEvery = 5 * time.Second
	// flatEnough is how much the last third of a run may be above the middle one.
	flatEnough = 1.25
	// spareRows is what a table of a few rows may differ by.
	spareRows = 200
)

// sample is the state of a run at one moment. Of several processes it has the largest.
type sample struct {
	Seconds    float64
	MemoryMB   float64 // resident
	Goroutines float64
	Rows       float64 // READY: what is DEAD stays
	P50, P99   float64 // ms of the calls that returned nil since the last sample
}

// series are the figures of a sample that are drawn and compared.
func series() []struct {
	name, unit string
	of         func(sample) float64
	spare      float64
	decides    bool // durations do not
} {
	return []struct {
		name, unit string
		of         func(sample) float64
		spare      float64
		decides    bool
	}{
		{"memory", "MB", func(s sample) float64 { return s.MemoryMB }, 8, true},
		{"goroutines", "", func(s sample) float64 { return s.Goroutines }, 8, true},
		{"rows", "", func(s sample) float64 { return s.Rows }, spareRows, true},
		{"p50", "ms", func(s sample) float64 { return s.P50 }, 0, false},
		{"p99", "ms", func(s sample) float64 { return s.P99 }, 0, false},
	}
}

// sampler takes samples until the returned function is called, which waits for it.
func (r *run) sampler(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.samples = append(r.samples, r.sample(ctx, time.Since(start)))
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

func (r *run) sample(ctx context.Context, at time.Duration) sample {
	s := sample{Seconds: at.Seconds()}
	for _, role := range []string{rolePublisher, roleCompensator} {
		for _, m := range r.fleet.living(role) {
			_, goroutines := r.book.goroutines(m.spec.Name)
			s.Goroutines = max(s.Goroutines, float64(goroutines))
			s.MemoryMB = max(s.MemoryMB, residentMB(m.Pid()))
		}
	}
	// With the database just away the sample has no rows.
	_ = r.db.pool().QueryRowContext(ctx, "SELECT COUNT(*) FROM trans_message WHERE status = 'READY'").Scan(&s.Rows)
	took := r.book.takeLatencies()
	slices.Sort(took)
	if n := len(took); n > 0 {
		s.P50, s.P99 = float64(took[n/2])/1e6, float64(took[n*99/100])/1e6
	}
	return s
}

// residentMB is what a process has in memory.
func residentMB(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0 // it has just ended
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0
	}
	return resident * float64(os.Getpagesize()) / (1 << 20)
}

// takeLatencies returns how long the calls took that returned nil since the last time.
func (b *book) takeLatencies() []int64 {
	_ = b.refresh() // an unreadable record is an error at the end of the run
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.latencies
	b.latencies = nil
	return out
}

// addSamples compares the last third of a run with the middle one, writes the samples down
// and draws them.
func (s *summary) addSamples(path string, samples []sample) error {
	s.Thirds = map[string][2]float64{}
	n := len(samples) / 3
	if n == 0 {
		s.fail("only %d samples: the run is too short to tell", len(samples))
		return nil
	}
	for _, x := range series() {
		middle, last := median(samples[n:2*n], x.of), median(samples[2*n:], x.of)
		s.Thirds[x.name] = [2]float64{middle, last}
		if x.decides && last > middle*flatEnough+x.spare {
			s.fail("%s grows: %.1f %s in the middle third, %.1f in the last", x.name, middle, x.unit, last)
		}
	}
	var csv strings.Builder
	csv.WriteString("seconds,memory_mb,goroutines,rows,p50_ms,p99_ms\n")
	for _, x := range samples {
		fmt.Fprintf(&csv, "%.0f,%.1f,%.0f,%.0f,%.2f,%.2f\n", x.Seconds, x.MemoryMB, x.Goroutines, x.Rows, x.P50, x.P99)
	}
	if err := os.WriteFile(path+".csv", []byte(csv.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(path+".svg", plot(samples), 0o644)
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
