package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
)

// TestS8_WrongInputNamesItsCause goes through mistakes of the first hour, against real servers.
func TestS8_WrongInputNamesItsCause(t *testing.T) {
	t.Parallel()
	store, broker := migrated(t), amqptest.VHost(t)
	u, err := url.Parse(broker)
	if err != nil {
		t.Fatal(err)
	}
	unknown, noRights := *u, *u
	unknown.Path = "/transmsg-test-no-such"
	noRights.User = url.UserPassword(stranger(t), "b8-password")
	base, _, err := amqptest.API()
	if err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	publish := []string{
		"publish", "--store", store, "--routing-key", "q", "--body", "x", "--connect-timeout", "3s", "--wait", "1ms",
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"management port": {
			append(publish, "--amqp", "amqp://guest:guest@"+net.JoinHostPort(api.Hostname(), "15672")+"/"), 0,
			[]string{"port 15672 is usually that of RabbitMQ's management", "5672"},
		},
		"unknown virtual host": {
			append(publish, "--amqp", unknown.String()), 0,
			[]string{"the virtual host does not exist", "transmsg-test-no-such"},
		},
		"no rights": {
			append(publish, "--amqp", noRights.String()), 0,
			[]string{"the user has no permission on this virtual host", strings.TrimPrefix(u.Path, "/")},
		},
		"flag for a file": {
			[]string{"publish", "--store", store, "--jsonl", "--json"},
			2,
			[]string{"--jsonl needs a value, and the flag --json follows"},
		},
		"flag for a text": {
			append(publish, "--key", "--service=shop"), 2,
			[]string{"--key needs a value, and the flag --service follows", "--key=--service"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := runIn(t, tc.args...)
			if code != tc.code {
				t.Errorf("exit %d, want %d: %s%s", code, tc.code, out, errs)
			}
			for _, says := range tc.says {
				if !strings.Contains(errs, says) {
					t.Errorf("want %q in:\n%s", says, errs)
				}
			}
		})
	}
	meant := append(publish, "--amqp", broker, "--wait", "20s", "--key=--service=shop")
	code, out, errs := runIn(t, meant...)
	if code != exitKept {
		t.Errorf("a key that looks like a flag: exit %d: %s%s", code, out, errs)
	}
}

// stranger is a user of the broker with the password b8-password and without any rights.
func stranger(t *testing.T) string {
	t.Helper()
	base, admin, err := amqptest.API()
	if err != nil {
		t.Fatal(err)
	}
	user := fmt.Sprintf("transmsg-test-%08x", rand.Uint32())
	(&brokerAPI{t: t, base: base + "/api/", user: admin}).put("users/"+user, `{"password":"b8-password","tags":""}`)
	return user
}

// TestS8_TheDriversFormBehindMySQL: what the driver's own documents write is taken.
func TestS8_TheDriversFormBehindMySQL(t *testing.T) {
	t.Parallel()
	dsn, drop, err := dbtest.NewMySQL(t.Context()) // user@tcp(host:port)/name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	code, _, errs := runIn(t, "migrate", "up", "--store", "mysql://"+dsn)
	if code != 0 || !strings.Contains(dsn, "@tcp(") {
		t.Errorf("migrate up --store mysql://%s: exit %d: %s", dsn, code, errs)
	}
}

// TestS8_ARedisThatIsNotThereHasAnAddress: the log says which Redis does not answer.
func TestS8_ARedisThatIsNotThereHasAnAddress(t *testing.T) {
	t.Parallel()
	store, broker := migrated(t), amqptest.VHost(t)
	p := start(t, nil, "compensator", "--store", store, "--amqp", broker, "--http", "", "--interval", "50ms",
		"--redis", "redis://app:s3cret-b8@127.0.0.1:1/0")
	waitFor(t, "Redis is told", func() bool { return strings.Contains(p.stderr.String(), "redis does not answer") })
	p.stop(t)
	for line := range strings.Lines(p.stderr.String()) {
		if strings.Contains(line, "redis does not answer") && !strings.Contains(line, "redis=127.0.0.1:1 ") {
			t.Errorf("no address in %s", line)
		}
	}
}
