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

// broker is the private node of the package: users are of the whole broker, so the shared one will not do. binary is
// the transmsg under test.
var (
	broker struct {
		node *amqptest.Node
		port int // of the management API
	}
	binary string
)

func TestMain(m *testing.M) { os.Exit(runMain(m)) }

func runMain(m *testing.M) int {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := errors.Join(broker.node.Close(), os.RemoveAll(filepath.Dir(binary))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func prepare() error {
	folder, err := os.MkdirTemp("", "transmsg-topology-")
	if err != nil {
		return err
	}
	binary = filepath.Join(folder, "transmsg")
	build := exec.Command("go", "build", "-o", binary, "../../cmd/transmsg")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	port, err := proc.FreePorts(1)
	if err != nil {
		return err
	}
	broker.port = port[0]
	broker.node, err = amqptest.NewNode(context.Background(), "", amqptest.Options{
		Plugins: []string{"rabbitmq_management", "rabbitmq_consistent_hash_exchange"},
		Config:  []string{"management.tcp.ip = 127.0.0.1", fmt.Sprintf("management.tcp.port = %d", port[0])},
	})
	return err
}

// password is a canary: found anywhere but in a login it is a leak.
const password = `canary %(x)s "quoted" \ ü`

// world is one virtual host with a topology file for it.
type world struct {
	t           *testing.T
	vhost, file string
	tag         string   // of the users' names
	env         []string // of the script
	options     []string // of rabbitmqadmin
}

func newWorld(t *testing.T) *world {
	t.Helper()
	tag := strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())
	w := &world{t: t, vhost: "vhost of " + tag, tag: tag}
	folder := t.TempDir()
	w.file = w.write(filepath.Join(folder, "topology.yaml"), fmt.Sprintf(`
vhost: %q
routes:
  - {exchange: orders, queue: orders.all}
  - {exchange: shipping, queue: shipping.all}
queues:
  - {name: orders.all, retry: [100ms, 1m]}
  - {name: shipping.all, partitions: 3}
users:
  publisher: {name: p-%[2]s, password-file: word}
  consumer: {name: c-%[2]s, password-file: word}
  compensator: {name: k-%[2]s, password-file: word}
  collector: {name: l-%[2]s, password-file: word}
`, w.vhost, tag))
	w.write(filepath.Join(folder, "word"), password+"\n")
	config := w.write(filepath.Join(folder, "admin.conf"),
		fmt.Sprintf("[it]\nhostname = 127.0.0.1\nport = %d\nusername = guest\npassword = guest\n", broker.port))
	w.options = []string{"--config", config, "--node", "it"}
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "TRANSMSG=" + binary}
	return w
}

func (w *world) write(path, text string) string {
	w.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// run runs the script; it fails the test when the password shows, or when another code comes than is wanted.
func (w *world) run(want int, verb string) (out string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./topology.sh", append([]string{verb, w.file}, w.options...)...)
	cmd.Env = w.env
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		w.t.Fatalf("%s = %d, want %d\n%s", verb, got, want, &all)
	}
	if strings.Contains(all.String(), "canary") {
		w.t.Errorf("%s shows a password:\n%s", verb, &all)
	}
	return all.String()
}

// names runs a check, which must find each text and nothing else.
func (w *world) names(texts ...string) {
	w.t.Helper()
	out := w.run(1, "check")
	for _, text := range texts {
		if !strings.Contains(out, text) {
			w.t.Errorf("no finding says %q:\n%s", text, out)
		}
	}
	if n := strings.Count(out, "\n"); n != len(texts)+1 {
		w.t.Errorf("%d findings, want %d:\n%s", n-1, len(texts), out)
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
	w.ctl("set_permissions", "-p", w.vhost, "guest", ".*", ".*", ".*")
	return amqptest.Connect(w.t, broker.node.URLFor("guest", "guest", w.vhost))
}
