package bench

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
)

// Usage is what one run cost the measured process.
type Usage struct {
	PeakRSS int64   // bytes; 0 where the system does not tell
	Allocs  float64 // allocations per message
	Bytes   float64 // allocated bytes per message
}

// meter measures Usage between start and stop.
type meter struct {
	mallocs, bytes uint64
}

// startMeter begins; the heap was emptied by Rest, so that one run's garbage is not
// another's peak.
func startMeter() meter {
	resetPeak()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return meter{mallocs: m.Mallocs, bytes: m.TotalAlloc}
}

func (s meter) stop(messages int) Usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Usage{
		PeakRSS: peakRSS(),
		Allocs:  ratio(float64(m.Mallocs-s.mallocs), float64(messages)),
		Bytes:   ratio(float64(m.TotalAlloc-s.bytes), float64(messages)),
	}
}

// resetPeak makes Linux count the peak from now on. Where that is not allowed, peaks are
// those since the start of the process: too large, never too small.
func resetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// peakRSS is the largest resident size in bytes, 0 where there is no /proc.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(value), []byte(" kB"))), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
