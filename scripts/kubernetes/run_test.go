package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/proc"
)

// closing is what the process needs after the drain: the handshake with the broker (5 s)
// and the last HTTP requests (1 s).
const closing = 6 * time.Second

func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "transmsg")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/transmsg")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// imageUser is the user that the Dockerfile sets.
func imageUser(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^USER (\d+):`).FindSubmatch(text)
	if found == nil {
		t.Fatal("the Dockerfile sets no user")
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// settings are the keys of the ConfigMap, with the defaults of --help for the rest.
func settings(t *testing.T, binary string, all map[string]object) map[string]string {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), binary, "compensator", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^ +--([a-z-]+).*?(?:\(default "?([^")]*)"?\))?$`).
		FindAllStringSubmatch(string(help), -1) {
		out[found[1]] = found[2]
	}
	var given map[string]any
	config := get(t, all, "ConfigMap/transmsg-compensator").Data["config.yaml"]
	if err := yaml.Unmarshal([]byte(config), &given); err != nil {
		t.Fatal(err)
	}
	for name, value := range given {
		if _, ok := out[name]; !ok {
			t.Errorf("config.yaml sets %s, which transmsg compensator --help does not know", name)
		}
		out[name] = fmt.Sprint(value)
	}
	return out
}

func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestManifestsFitTheSettings(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	set := settings(t, build(t), all)
	p := get(t, all, "Deployment/transmsg-compensator").Spec.Template.Spec
	c := p.Containers[0]
	grace, drain := time.Duration(p.TerminationGracePeriodSeconds)*time.Second, seconds(t, set["drain-timeout"])
	if grace < drain+closing {
		t.Errorf("grace period %v is below drain-timeout %v and %v for closing", grace, drain, closing)
	}
	port := fmt.Sprintf(":%d", c.Ports[0].ContainerPort)
	if set["http"] != port {
		t.Errorf("http is %q, want all addresses with the container's port: %q", set["http"], port)
	}
	for path, probe := range map[string]probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port != c.Ports[0].Name || probe.TimeoutSeconds <= 2 {
			t.Errorf("probe %+v, want %s on port %s and more than the 2 s that an answer may take",
				probe, path, c.Ports[0].Name)
		}
	}
	batch, err := strconv.Atoi(set["batch-bytes"])
	if err != nil {
		t.Fatal(err)
	}
	if memory := mebibytes(t, c.Resources.Limits["memory"]); memory < 4*batch>>20 {
		t.Errorf("memory limit %d MiB, want four times batch-bytes %d", memory, batch)
	}
	for _, e := range c.Env {
		setting := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(e.Name, "TRANSMSG_"), "_", "-"))
		if _, ok := set[setting]; !ok && strings.HasPrefix(e.Name, "TRANSMSG_") {
			t.Errorf("variable %s is no setting", e.Name)
		}
	}
}

// What comments offer to be taken in is true as well: a setting that exists, and a file in
// a folder that is mounted.
func TestManifestsOfferTrueSettings(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	binary := build(t)
	for _, offer := range []struct {
		file, pod, verb string
		line            string // of a setting and its value
		want            int
	}{
		{
			"config.yaml", "Deployment/transmsg-compensator", "compensator",
			`(?m)^ +# ([a-z-]+): (/\S+)$`, 3,
		},
		{
			"migrate.yaml", "Job/transmsg-migrate", "migrate up",
			`(?m)^ +# - name: (TRANSMSG_[A-Z_]+)\n +#   value: (/\S+)$`, 1,
		},
	} {
		text, err := os.ReadFile(offer.file)
		if err != nil {
			t.Fatal(err)
		}
		help, err := exec.CommandContext(t.Context(), binary, append(strings.Fields(offer.verb), "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		mounts := get(t, all, offer.pod).Spec.Template.Spec.Containers[0].VolumeMounts
		found := regexp.MustCompile(offer.line).FindAllStringSubmatch(string(text), -1)
		if len(found) != offer.want {
			t.Errorf("%s offers %q, want %d settings", offer.file, found, offer.want)
		}
		for _, f := range found {
			flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(f[1], "TRANSMSG_"), "_", "-"))
			if !strings.Contains(string(help), " --"+flag+" ") {
				t.Errorf("%s offers %s, which transmsg %s --help does not know", offer.file, f[1], offer.verb)
			}
			folder := filepath.Dir(f[2])
			if !slices.ContainsFunc(mounts, func(m mount) bool { return m.MountPath == folder }) {
				t.Errorf("%s: %s of %s is in no folder that is mounted", offer.file, f[2], f[1])
			}
		}
	}
}

func mebibytes(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(text, "Mi"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The Job and then the Deployment's container run as the manifests say, with the mounted
// folders elsewhere.
func TestManifestsRun(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	binary := build(t)
	dsn := dbtest.MySQL(t)
	ports, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(ports[0])
	secrets := map[string]string{
		"store": dsn, "amqp": amqptest.VHost(t), "redis": "redis://" + dbtest.StartRedis(t).Addr() + "/0",
	}
	migrate := pods{t, binary, all, secrets, port}.command("Job/transmsg-migrate")
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	daemon := pods{t, binary, all, secrets, port}.command("Deployment/transmsg-compensator")
	var log strings.Builder
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	c := get(t, all, "Deployment/transmsg-compensator").Spec.Template.Spec.Containers[0]
	for _, probe := range []probe{c.LivenessProbe, c.ReadinessProbe} {
		if err := answers(t.Context(), "http://127.0.0.1:"+port+probe.HTTPGet.Path, ended); err != nil {
			_ = daemon.Process.Kill()
			end := <-ended // the log is whole then
			t.Fatalf("%s: %v (ended: %v)\n%s", probe.HTTPGet.Path, err, end, log.String())
		}
	}
	scraped(t, get(t, all, "Deployment/transmsg-compensator"), port)
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("after SIGTERM: %v, want exit 0\n%s", err, log.String())
	}
}

// pods runs containers of the manifests as processes.
type pods struct {
	t       *testing.T
	binary  string
	all     map[string]object
	secrets map[string]string // the values of the keys
	port    string            // instead of 9467
}

// command is the container's process, with each mounted path replaced by a folder that
// holds what the volume would.
func (p pods) command(name string) *exec.Cmd {
	p.t.Helper()
	spec := get(p.t, p.all, name).Spec.Template.Spec
	c := spec.Containers[0]
	var paths []string
	for _, mount := range c.VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v volume) bool { return v.Name == mount.Name })
		if i < 0 {
			p.t.Fatalf("%s mounts %s, which is no volume", name, mount.Name)
		}
		paths = append(paths, mount.MountPath, p.fill(spec.Volumes[i]))
	}
	here := strings.NewReplacer(paths...)
	var args, env []string
	for _, arg := range c.Args {
		args = append(args, here.Replace(arg))
	}
	for _, e := range c.Env {
		env = append(env, e.Name+"="+here.Replace(e.Value))
	}
	cmd := exec.CommandContext(p.t.Context(), p.binary, args...)
	cmd.Env = env
	return cmd
}

// fill makes the folder of a volume.
func (p pods) fill(v volume) string {
	p.t.Helper()
	content := map[string]string{}
	if v.Secret.SecretName != "" {
		for key := range get(p.t, p.all, "Secret/"+v.Secret.SecretName).StringData {
			value, ok := p.secrets[key]
			if !ok {
				p.t.Fatalf("secret %s has the key %s, of which this test knows nothing", v.Secret.SecretName, key)
			}
			content[key] = value
		}
	} else {
		for key, value := range get(p.t, p.all, "ConfigMap/"+v.ConfigMap.Name).Data {
			content[key] = strings.ReplaceAll(value, ":9467", "127.0.0.1:"+p.port)
		}
	}
	folder := p.t.TempDir()
	for key, value := range content {
		if err := os.WriteFile(filepath.Join(folder, key), []byte(value), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return folder
}

// scraped checks that a Prometheus that goes by the annotations finds the table's figures.
func scraped(t *testing.T, deployment object, port string) {
	t.Helper()
	pod := deployment.Spec.Template
	notes, declared := pod.Metadata.Annotations, strconv.Itoa(pod.Spec.Containers[0].Ports[0].ContainerPort)
	if notes["prometheus.io/scrape"] != "true" || notes["prometheus.io/port"] != declared {
		t.Errorf("annotations %v, want a scrape of port %s", notes, declared)
	}
	text := scrape(t, "http://127.0.0.1:"+port+notes["prometheus.io/path"])
	if !strings.Contains(text, "\ntransmsg_rows_up 1\n") {
		t.Errorf("what is scraped has no figures of the table:\n%s", text)
	}
}

// scrape returns what url shows.
func scrape(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// answers polls until url answers 200, the process ends or a minute is over.
func answers(ctx context.Context, url string, ended chan error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("status %s", response.Status)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case cause := <-ended:
			ended <- cause
			return fmt.Errorf("the process ended: %w", cause)
		case <-tick.C:
		}
	}
}
