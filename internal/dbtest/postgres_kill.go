package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// errStillAttached means that back ends of a killed server did not notice.
var errStillAttached = errors.New("back ends still attached to its shared memory")

// Kill ends the server with SIGKILL and waits until its back ends have noticed:
// before that it does not start again. Killing a stopped server is nil.
func (s *PostgresServer) Kill() error {
	id := s.sharedMemory()
	if err := s.Instance.Kill(); err != nil {
		return err
	}
	deadline := time.Now().Add(stopTimeout)
	for attached(id) {
		if time.Now().After(deadline) {
			return fmt.Errorf("kill postgres: %w", errStillAttached)
		}
		time.Sleep(5 * time.Millisecond) // The interval of a poll with a deadline.
	}
	return nil
}

// Close ends the server and removes its files and, after a Kill, the shared
// memory segment that outlives it. Closing twice is nil.
func (s *PostgresServer) Close() error {
	err := s.Stop()
	if id := s.sharedMemory(); id != "" {
		ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
		defer cancel()
		if out, rmErr := exec.CommandContext(ctx, "ipcrm", "-m", id).CombinedOutput(); rmErr != nil {
			err = errors.Join(err, fmt.Errorf("ipcrm: %w: %s", rmErr, out))
		}
	}
	return errors.Join(err, s.Instance.Close())
}

// sharedMemory returns the id of the server's System V segment, which line 7 of
// its pid file names, or "" when there is no such file, as after Stop.
func (s *PostgresServer) sharedMemory() string {
	b, err := os.ReadFile(s.path("data/postmaster.pid"))
	if err != nil {
		return ""
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 7 {
		return ""
	}
	fields := strings.Fields(lines[6])
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}

// attached says whether any process still maps the segment.
func attached(id string) bool {
	b, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil || id == "" {
		return false
	}
	const colID, colAttached = 1, 6
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > colAttached && f[colID] == id {
			return f[colAttached] != "0"
		}
	}
	return false
}
