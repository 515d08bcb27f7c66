package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// profile records a figure's last repetition; fills and checks are in it too.
func (r *runner) profile(f *figure, last bool) (stop func() error, err error) {
	if r.cfg.ProfileDir == "" || !last || f.name == "naive" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(r.cfg.ProfileDir, 0o755); err != nil { //nolint:gosec // profiles are no secret
		return nil, err
	}
	name := filepath.Join(r.cfg.ProfileDir, fmt.Sprintf("%s-%d-%d", f.name, f.callers, f.waiting))
	cpu, err := os.Create(name + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	runtime.SetBlockProfileRate(10_000) // one sample per 10 µs blocked
	runtime.SetMutexProfileFraction(100)
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		err := cpu.Close()
		for _, kind := range []string{"allocs", "block", "mutex"} {
			err = errors.Join(err, writeProfile(name, kind))
		}
		runtime.SetBlockProfileRate(0)
		runtime.SetMutexProfileFraction(0)
		return err
	}, nil
}

func writeProfile(name, kind string) error {
	out, err := os.Create(name + "." + kind + ".pprof")
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(kind).WriteTo(out, 0), out.Close())
}
