package amqptest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Environment variables that point to another shared broker.
const (
	// EnvURL is amqp://user:password@host:port/.
	EnvURL = "TRANSMSG_TEST_AMQP_URL"
	// EnvAPI is http://host:port of its management API, which is otherwise looked
	// for on port 15672 of the broker's host.
	EnvAPI = "TRANSMSG_TEST_AMQP_API_URL"
	// EnvRoot names the root folder from which private nodes run: see [proc.Root].
	EnvRoot = "TRANSMSG_TEST_AMQP_ROOT"
)

const (
	defaultURL     = "amqp://guest:guest@127.0.0.1:5672/"
	managementPort = "15672"
	adminTimeout   = 30 * time.Second
)

// VHost creates a virtual host on the shared broker, in which the user of the
// broker's URL may do everything, and returns its AMQP URL. It is deleted, with
// all that is in it, when the test ends. The test fails at once when there is
// no broker.
func VHost(tb TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), adminTimeout)
	defer cancel()
	vhostURL, drop, err := NewVHost(ctx)
	if err != nil {
		tb.Fatalf("amqptest: %v", err)
		return ""
	}
	tb.Cleanup(func() {
		if err := drop(); err != nil {
			tb.Errorf("amqptest: %v", err)
		}
	})
	return vhostURL
}

// NewVHost is VHost for programs: it returns the URL of a fresh virtual host
// and the function that deletes it. The name starts with "transmsg-test-".
func NewVHost(ctx context.Context) (vhostURL string, drop func() error, err error) {
	shared, err := sharedURL()
	if err != nil {
		return "", nil, err
	}
	name := "transmsg-test-" + strings.ToLower(rand.Text()[:16])
	admin := vhostAdmin{user: shared.User, api: apiOf(shared)}
	if err := admin.create(ctx, name); err != nil {
		return "", nil, fmt.Errorf("create virtual host on the broker at %s: %w; "+
			"next step: run scripts/services.sh, or set %s", shared.Host, err, EnvURL)
	}
	drop = func() error {
		// Detached: the test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
		defer cancel()
		if err := admin.remove(ctx, name); err != nil {
			return fmt.Errorf("delete virtual host %s: %w", name, err)
		}
		return nil
	}
	shared.Path = "/" + name
	return shared.String(), drop, nil
}

// API returns the address of the shared broker's management API, without a
// slash at its end, and the user to log in there with.
func API() (base string, user *url.Userinfo, err error) {
	shared, err := sharedURL()
	if err != nil {
		return "", nil, err
	}
	return apiOf(shared), shared.User, nil
}

func apiOf(shared *url.URL) string {
	if api := os.Getenv(EnvAPI); api != "" {
		return strings.TrimSuffix(api, "/")
	}
	return "http://" + shared.Hostname() + ":" + managementPort
}

func sharedURL() (*url.URL, error) {
	raw := os.Getenv(EnvURL)
	if raw == "" {
		raw = defaultURL
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "amqp" || u.User == nil {
		// The value itself may hold a password.
		return nil, fmt.Errorf("%s: want amqp://user:password@host:port/", EnvURL)
	}
	return u, nil
}

// vhostAdmin creates and deletes virtual hosts over the management API, which
// takes milliseconds, or by rabbitmqctl, which takes a second or two.
type vhostAdmin struct {
	user *url.Userinfo
	api  string
}

// errNoAPI means that nothing answers as the management API.
var errNoAPI = errors.New("no management API")

func (a vhostAdmin) create(ctx context.Context, name string) error {
	err := a.call(ctx, http.MethodPut, "/api/vhosts/"+name, `{}`)
	if errors.Is(err, errNoAPI) {
		_, cerr := hostCtl(ctx, "add_vhost", name)
		if cerr == nil {
			_, cerr = hostCtl(ctx, "set_permissions", "-p", name, a.user.Username(), ".*", ".*", ".*")
		}
		if cerr != nil {
			return errors.Join(err, cerr)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return a.call(ctx, http.MethodPut, "/api/permissions/"+name+"/"+url.PathEscape(a.user.Username()),
		`{"configure":".*","write":".*","read":".*"}`)
}

func (a vhostAdmin) remove(ctx context.Context, name string) error {
	err := a.call(ctx, http.MethodDelete, "/api/vhosts/"+name, "")
	if errors.Is(err, errNoAPI) {
		if _, cerr := hostCtl(ctx, "delete_vhost", name); cerr != nil {
			return errors.Join(err, cerr)
		}
		return nil
	}
	return err
}

func (a vhostAdmin) call(ctx context.Context, method, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, a.api+path, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("management API: %w", err)
	}
	password, _ := a.user.Password()
	req.SetBasicAuth(a.user.Username(), password)
	req.Header.Set("Content-Type", "application/json")
	// A transport without idle connections leaves no goroutine behind for goleak.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("management API: %w", err)
		}
		return fmt.Errorf("%w: %w", errNoAPI, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("management API: %s %s: %s", method, path, resp.Status)
	}
	return nil
}

// hostCtl runs the machine's own rabbitmqctl against the shared broker.
func hostCtl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "rabbitmqctl", append([]string{"--quiet"}, args...)...)
	return output(cmd, args)
}

// output runs a rabbitmqctl command; the arguments may hold a password, so the
// error names the sub-command alone.
func output(cmd *exec.Cmd, args []string) (string, error) {
	out, err := cmd.Output()
	text := strings.TrimSpace(string(out))
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return text, fmt.Errorf("rabbitmqctl %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
		}
		return text, fmt.Errorf("rabbitmqctl %s: %w", args[0], err)
	}
	return text, nil
}
