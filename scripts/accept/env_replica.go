package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/proc"
	"github.com/transmsg/transmsg/model"
)

// nowhere is a broker that is never there: what is published beside it is stored,
// due at once, and sent by a compensator alone.
const nowhere = "amqp://guest:guest@127.0.0.1:1/"

// replica is one of several `transmsg compensator` with a log of its own.
type replica struct {
	daemon
	instance, log string
}

// replicas starts n compensators named prefix-1 to prefix-n with the same flags.
func (w *world) replicas(prefix string, n int, args ...string) ([]replica, error) {
	var all []replica
	for i := range n {
		r, err := w.replica(w.binary, fmt.Sprintf("%s-%d", prefix, i+1), args...)
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// replica starts one by the binary given. It ends with the world.
func (w *world) replica(binary, instance string, args ...string) (replica, error) {
	all := []string{"--store", w.dsn, "--amqp", w.url}
	if !slices.Contains(args, "--http") {
		all = append(all, "--http", "")
	}
	return w.bareReplica(binary, instance, append(all, args...)...)
}

// bareReplica starts one with these flags alone.
func (w *world) bareReplica(binary, instance string, args ...string) (replica, error) {
	r := replica{instance: instance, log: filepath.Join(w.Dir, instance+".log")}
	p, err := proc.Start(proc.Spec{
		Path: binary, Args: append([]string{"compensator", "--instance", instance}, args...),
		Dir: w.Dir, Env: plainEnv(),
		Output: r.log,
	})
	if err != nil {
		return r, err
	}
	r.daemon = daemon{p}
	w.later(r.stop)
	return r, nil
}

// stopAll ends them as an orchestrator does and wants each to exit with 0.
func (w *world) stopAll(all []replica) error {
	for _, r := range all {
		running := r.Running()
		w.Breaches.Check(running, "%s ended by itself: %s", r.instance, tailOf(r.log))
		if err := r.stop(); err != nil {
			return err
		}
		if running {
			w.Breaches.Equal("exit status of "+r.instance, r.ExitCode(), 0)
		}
	}
	return nil
}

// tailOf returns the end of a log.
func tailOf(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-600):])
}

// shelve stores messages through the library for a service that has no broker,
// in calls of up to 500, and returns their ids in order.
func (w *world) shelve(ctx context.Context, service string, messages []model.Message) ([]string, error) {
	svc, err := w.service(ctx, serviceSpec{AMQP: nowhere, Service: service})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(messages))
	const batch = 500
	var mu sync.Mutex
	var first error
	var callers sync.WaitGroup
	places := make(chan struct{}, 4)
	for at := 0; at < len(messages); at += batch {
		places <- struct{}{}
		callers.Go(func() {
			defer func() { <-places }()
			receipts, err := svc.pub.PublishBatch(ctx, messages[at:min(at+batch, len(messages))])
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = fmt.Errorf("store messages for later: %w", err)
			}
			for i, r := range receipts {
				ids[at+i] = r.ID()
			}
		})
	}
	callers.Wait()
	if first != nil {
		return nil, first
	}
	return ids, svc.close(ctx)
}

// instances collects who has claimed rows, looking until stop is called.
func (w *world) instances(ctx context.Context) (stop func() map[string]bool) {
	seen := map[string]bool{}
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			found, err := w.db.strings(ctx, "SELECT DISTINCT claimed_by FROM trans_message WHERE claimed_by <> ''")
			w.Breaches.Check(err == nil, "look who claims: %v", err)
			for _, o := range found {
				seen[o] = true
			}
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
	}()
	return func() map[string]bool {
		close(over)
		<-done
		return seen
	}
}
