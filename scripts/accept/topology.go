package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/proc"
	"github.com/transmsg/transmsg/internal/topologytest"
)

// topologyCheck breaks a good topology on a broker, in one way after the other.
func topologyCheck() check {
	return check{
		name: "topology-check",
		about: "each way to break a topology on a private broker, in any order, by the management API and as an " +
			"export: found by its rules and no others; nothing is said of the good one, and AMQP alone is never ok",
		once: true,
		run: func(ctx context.Context, e *env) (figures, error) {
			b, err := newBrokenBroker(ctx, e)
			if err != nil {
				return nil, err
			}
			defer b.close()
			return b.run(ctx)
		},
	}
}

// brokenBroker is a private broker whose topology is spoiled.
type brokenBroker struct {
	*world
	api  string // http://host:port of the management API
	file string // the topology file
	good []byte // its definitions, as printed
}

func newBrokenBroker(ctx context.Context, e *env) (*brokenBroker, error) {
	b := &brokenBroker{world: &world{env: e}, file: filepath.Join(e.Dir, "topology.yaml")}
	for _, step := range []func(context.Context) error{b.start, b.print} {
		if err := step(ctx); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

func (b *brokenBroker) start(ctx context.Context) error {
	port, err := proc.FreePorts(1)
	if err != nil {
		return err
	}
	b.api = "http://" + proc.Loopback(port[0])
	b.node, err = amqptest.NewNode(ctx, "", amqptest.Options{
		Plugins: []string{"rabbitmq_management", "rabbitmq_consistent_hash_exchange"},
		Config:  []string{"management.tcp.ip = 127.0.0.1", fmt.Sprintf("management.tcp.port = %d", port[0])},
	})
	if err != nil {
		return err
	}
	b.later(b.node.Close)
	return b.build(ctx, worldOptions{})
}

// print has the binary make the definitions of the good topology.
func (b *brokenBroker) print(ctx context.Context) error {
	files := map[string]string{b.file: topologytest.TopologyFile}
	for role, password := range topologytest.Users {
		files[filepath.Join(b.Dir, role)] = password
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, b.binary, "topology", "print", "--topology", b.file)
	cmd.Env = plainEnv()
	out, err := cmd.Output()
	b.good = out
	return err
}

func (b *brokenBroker) run(ctx context.Context) (figures, error) {
	if err := b.imported(ctx, b.good); err != nil {
		return nil, err
	}
	version, err := b.expect(ctx, "good", topologytest.Way{})
	if err != nil {
		return nil, err
	}
	if err := b.overAMQP(ctx); err != nil {
		return nil, err
	}
	var major int
	if _, err := fmt.Sscanf(version, "%d.", &major); err != nil {
		return nil, fmt.Errorf("version %q: %w", version, err)
	}
	ways := slices.DeleteFunc(topologytest.Ways(), func(w topologytest.Way) bool { return !w.On(major) })
	b.Rand.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
	rules := map[string]bool{}
	for _, way := range ways {
		if err := b.spoil(ctx, way); err != nil {
			return nil, err
		}
		if _, err := b.expect(ctx, way.Name, way); err != nil {
			return nil, err
		}
		for _, rule := range way.Rules {
			rules[rule] = true
		}
	}
	return figures{"broken": len(ways), "rules": len(rules), "rabbitmq": version}, nil
}

// spoil has the broker import the good topology after the way's edit.
func (b *brokenBroker) spoil(ctx context.Context, way topologytest.Way) error {
	d, err := topologytest.Parse(b.good)
	if err != nil {
		return err
	}
	way.Break(d, topologytest.VHost)
	text, err := d.Text()
	if err != nil {
		return err
	}
	return b.imported(ctx, text)
}

// imported makes the broker have these definitions and nothing else of ours.
func (b *brokenBroker) imported(ctx context.Context, definitions []byte) error {
	gone := []string{"vhosts/" + topologytest.VHost, "vhosts/" + topologytest.Elsewhere}
	for role := range topologytest.Users {
		gone = append(gone, "users/shop-"+role)
	}
	for _, path := range gone {
		if _, err := b.call(ctx, http.MethodDelete, path, nil); err != nil && !errors.Is(err, errNotThere) {
			return err
		}
	}
	_, err := b.call(ctx, http.MethodPost, "definitions", definitions)
	return err
}

var errNotThere = errors.New("404")

func (b *brokenBroker) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.api+"/api/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("guest", "guest")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, errNotThere
	case resp.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, out)
	}
	return out, nil
}

// topologyVerdict is the documented line.
type topologyVerdict struct {
	Verdict  string
	Version  string
	Findings []struct{ Rule, Object, Text string }
	Unseen   []any `json:"not_checked"`
}

// expect has the broker checked twice, and wants what the way says; the zero way is the good topology.
func (b *brokenBroker) expect(ctx context.Context, name string, way topologytest.Way) (version string, err error) {
	export, err := b.call(ctx, http.MethodGet, "definitions", nil)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.Dir, "export.json")
	if err := os.WriteFile(path, export, 0o600); err != nil {
		return "", err
	}
	live := strings.Replace(b.api, "http://", "http://guest:guest@", 1)
	for how, args := range map[string][]string{"export": {"--definitions", path}, "API": {"--management", live}} {
		got, code, err := b.check(ctx, args...)
		if err != nil {
			return "", fmt.Errorf("%s by %s: %w", name, how, err)
		}
		b.compare(name+" by "+how, got, code, way)
		version = got.Version
		if version == "" {
			version = "3" // a missing virtual host is asked for nothing more
		}
	}
	return version, nil
}

func (b *brokenBroker) compare(what string, got topologyVerdict, code int, way topologytest.Way) {
	verdict, wantCode := "broken", 1
	if way.Name == "" {
		verdict, wantCode = "ok", 0
	}
	if got.Verdict != verdict || code != wantCode || len(got.Unseen) > 0 {
		b.Breaches.Add("%s: verdict %s, exit code %d, not checked %v; want %s and %d", what, got.Verdict, code,
			got.Unseen, verdict, wantCode)
	}
	var rules []string
	said := way.Says == ""
	for _, f := range got.Findings {
		rules = append(rules, f.Rule)
		line := f.Object + ": " + f.Text
		said = said || strings.Contains(line, way.Says) || strings.Contains(f.Object+" is "+f.Text, way.Says)
	}
	want := slices.Sorted(slices.Values(way.Rules))
	slices.Sort(rules)
	if rules = slices.Compact(rules); !slices.Equal(rules, want) || !said {
		b.Breaches.Add("%s: found by %v, want %v saying %q: %v", what, rules, want, way.Says, got.Findings)
	}
}

// overAMQP checks the good topology by passive declares: what they do not tell is not ok.
func (b *brokenBroker) overAMQP(ctx context.Context) error {
	if err := b.node.SetPermissions("guest", topologytest.VHost, "^$", "^$", "^$"); err != nil {
		return err
	}
	got, code, err := b.check(ctx, "--amqp", b.node.URLFor("guest", "guest", topologytest.VHost))
	if err != nil {
		return err
	}
	if got.Verdict != "incomplete" || code != 4 || len(got.Unseen) == 0 || len(got.Findings) > 0 {
		b.Breaches.Add("the good topology over AMQP: %+v, exit code %d; want incomplete and 4", got, code)
	}
	return nil
}

func (b *brokenBroker) check(ctx context.Context, args ...string) (got topologyVerdict, code int, err error) {
	cmd := exec.CommandContext(ctx, b.binary,
		append([]string{"topology", "check", "--json", "--topology", b.file}, args...)...)
	cmd.Env = plainEnv()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return got, 0, err
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return got, 0, fmt.Errorf("%w: %s%s", err, out, &stderr)
	}
	return got, cmd.ProcessState.ExitCode(), nil
}
