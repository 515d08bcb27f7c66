package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// line is one line for `transmsg publish --jsonl -`.
type line struct {
	ID         string `json:"id"`
	Exchange   string `json:"exchange"`
	RoutingKey string `json:"routing_key"`
	Key        string `json:"key,omitempty"`
	Body       []byte `json:"body_base64"`
	NotBefore  string `json:"not_before,omitempty"`
}

// cliPublisher is a running `transmsg publish --jsonl -`, a service that is another
// process and may be of another version.
type cliPublisher struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // its output has ended

	mu       sync.Mutex
	given    []string          // ids, in order
	outcomes map[string]string // by id
}

// cli starts one; the caller calls finish, or the world kills it.
func (w *world) cli(binary, service string) (*cliPublisher, error) {
	cmd := exec.Command(binary, "publish", "--jsonl", "-", "--json", "--service", service,
		"--store", w.dsn, "--amqp", w.url)
	cmd.Dir, cmd.Env, cmd.Stderr = w.Dir, plainEnv(), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", service, err)
	}
	p := &cliPublisher{cmd: cmd, in: in, ended: make(chan struct{}), outcomes: map[string]string{}}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var o struct{ ID, Outcome string }
			if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
				w.Breaches.Add("%s printed %.200q", service, lines.Text())
				continue
			}
			p.mu.Lock()
			p.outcomes[o.ID] = o.Outcome
			p.mu.Unlock()
		}
	}()
	w.later(func() error {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // a check that ended early
			<-p.ended
			_ = cmd.Wait()
		}
		return nil
	})
	return p, nil
}

// give hands one line over. It blocks while the publisher takes none.
func (p *cliPublisher) give(l line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.given = append(p.given, l.ID)
	p.mu.Unlock()
	_, err = p.in.Write(append(data, '\n'))
	return err
}

// known returns how many messages have an outcome.
func (p *cliPublisher) known() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.outcomes)
}

// finish ends its input and returns its exit status.
func (p *cliPublisher) finish() (int, error) {
	if err := p.in.Close(); err != nil {
		return 0, err
	}
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		return 0, fmt.Errorf("the publisher does not end: %d of %d outcomes", p.known(), len(p.given))
	}
	if err := p.cmd.Wait(); err != nil && p.cmd.ProcessState.ExitCode() < 0 {
		return 0, err
	}
	return p.cmd.ProcessState.ExitCode(), nil
}
