package topology_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/proc"
)

// broker is the private node of the package: users are of the whole broker, so the shared one will not do.
var broker struct {
	node *amqptest.Node
	api  string
}

func TestMain(m *testing.M) { os.Exit(runMain(m)) }

func runMain(m *testing.M) int {
	port, err := proc.FreePorts(1)
	if err == nil {
		broker.api = "http://" + proc.Loopback(port[0])
		broker.node, err = amqptest.NewNode(context.Background(), "", amqptest.Options{
			Plugins: []string{"rabbitmq_management"},
			Config:  []string{"management.tcp.ip = 127.0.0.1", fmt.Sprintf("management.tcp.port = %d", port[0])},
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := broker.node.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Canaries: found anywhere but in a login they are a leak. The signs are those that configuration files know.
const (
	publisherPassword   = `canary-publisher %(x)s "quoted" \`
	consumerPassword    = "canary-consumer ${x} #;="
	compensatorPassword = "canary-compensator ü'"
)

// world is one virtual host with the environment of the script for it.
type world struct {
	t     *testing.T
	vhost string
	env   map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	name := strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())
	w := &world{t: t, vhost: "vhost of " + name}
	w.env = map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "TMPDIR": t.TempDir(), "LANG": "C.UTF-8",
		"TOPOLOGY_API":                broker.api,
		"TOPOLOGY_VHOST":              w.vhost,
		"TOPOLOGY_PUBLISHER_USER":     "p-" + name,
		"TOPOLOGY_CONSUMER_USER":      "c-" + name,
		"TOPOLOGY_COMPENSATOR_USER":   "k-" + name,
		"TOPOLOGY_PUBLISHER_PASSWORD": publisherPassword,
		"TOPOLOGY_CONSUMER_PASSWORD":  consumerPassword,
	}
	// One from a file, with the newline that editors leave.
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(compensatorPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env["TOPOLOGY_COMPENSATOR_PASSWORD_FILE"] = file
	return w
}

// result is what one run of the script showed.
type result struct {
	code        int
	out, errOut string
}

// run runs the script and fails the test when a password shows.
func (w *world) run(verb string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, lookPath(w.t, "python3"), "topology.py", verb)
	for k, v := range w.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	r := result{code: cmd.ProcessState.ExitCode(), out: out.String(), errOut: errOut.String()}
	if strings.Contains(r.out+r.errOut, "canary") {
		w.t.Errorf("%s shows a password:\n%s%s", verb, r.out, r.errOut)
	}
	return r
}

// must runs the script, which must find or make everything as asked.
func (w *world) must(verb string) string {
	w.t.Helper()
	r := w.run(verb)
	if r.code != 0 || r.errOut != "" {
		w.t.Fatalf("%s = %d, want 0\n%s%s", verb, r.code, r.out, r.errOut)
	}
	return r.out
}

// refuses runs the script, which must end with 1 and name each text.
func (w *world) refuses(verb string, texts ...string) {
	w.t.Helper()
	r := w.run(verb)
	if r.code != 1 {
		w.t.Errorf("%s = %d, want 1\n%s%s", verb, r.code, r.out, r.errOut)
	}
	for _, text := range texts {
		if !strings.Contains(r.errOut, text) {
			w.t.Errorf("%s does not say %q:\n%s", verb, text, r.errOut)
		}
	}
	if n := strings.Count(r.errOut, "\n"); n != len(texts)+1 {
		w.t.Errorf("%s names %d differences, want %d:\n%s", verb, n-1, len(texts), r.errOut)
	}
}

// ctl runs rabbitmqctl on the node.
func (w *world) ctl(args ...string) {
	w.t.Helper()
	if _, err := broker.node.Ctl(args...); err != nil {
		w.t.Fatal(err)
	}
}

// admin is a connection that may do everything in the world's virtual host.
func (w *world) admin() *amqptest.Client {
	w.t.Helper()
	return amqptest.Connect(w.t, broker.node.URLFor("guest", "guest", w.vhost))
}

// lookPath returns the absolute path of a program.
func lookPath(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	// A version manager's wrapper works from its own folder only.
	if program == "python3" {
		out, err := exec.CommandContext(t.Context(), path, "-c", "import sys; print(sys.executable, end='')").Output()
		if err != nil {
			t.Fatal(err)
		}
		path = string(out)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
