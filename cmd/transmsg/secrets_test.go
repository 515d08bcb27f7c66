package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/logtest"
)

const canary = "CANARY-s3cret"

// No output of any verb contains a password, wherever it came from and whatever is wrong
// with the address: the log at its most talkative included.
func TestC28_NoSecretInOutput(t *testing.T) {
	dir := t.TempDir()
	secretFile := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	store := migrated(t)
	stats := func(dsn string) []string { return []string{"stats", "--store", dsn} }
	publish := func(args ...string) []string {
		return append([]string{
			"publish", "--routing-key", "q", "--body", "x", "--store", store, "--connect-timeout", "1500ms",
			"--log-level", "debug",
		}, args...)
	}
	daemon := func(args ...string) []string {
		return append([]string{"compensator", "--http", "", "--log-level", "debug", "--drain-timeout", "1s"}, args...)
	}
	tests := []struct {
		name string
		args []string
		env  map[string]string
	}{
		{"broker refuses", publish("--amqp", "amqp://app:"+canary+"@127.0.0.1:5672/"), nil},
		{"broker down", publish("--amqp", "amqp://app:"+canary+"@127.0.0.1:1/"), nil},
		{"broker URL with a bad escape", publish("--amqp", "amqp://app:"+canary+"%zz@127.0.0.1/"), nil},
		{"broker URL with a bad port", publish("--amqp", "amqp://app:"+canary+"@127.0.0.1:port/"), nil},
		{"broker URL with a control character", publish("--amqp", "amqp://app:"+canary+"\x01@127.0.0.1/"), nil},
		{"broker URL without a scheme", publish("--amqp", "app:"+canary+"@127.0.0.1"), nil},
		{"password of its own", publish("--amqp-user", "app", "--amqp-password", canary), nil},
		{"password in a file", publish("--amqp-user", "app", "--amqp-password-file", secretFile("p", canary)), nil},
		{"broker URL in a file", publish("--amqp-file", secretFile("u", "amqp://app:"+canary+"@127.0.0.1:1/")), nil},
		{"bad broker URL in a file", publish("--amqp-file", secretFile("b", "amqp://app:"+canary+"%zz@h/")), nil},
		{
			"broker URL in the environment", publish(),
			map[string]string{"TRANSMSG_AMQP": "amqp://app:" + canary + "%zz@h/"},
		},
		{"settings file", publish("--config", secretFile("c.yaml", "amqp: amqp://app:"+canary+"%zz@h/")), nil},
		{"URL as an argument", daemon("amqp://app:" + canary + "@h/"), nil},
		{"URL for a file", publish("--amqp-file", "amqp://app:"+canary+"@h/"), nil},
		{"URL for a verb", []string{"amqp://app:" + canary + "@h/"}, nil},
		{"mysql down", stats("mysql://app:" + canary + "@127.0.0.1:1/shop"), nil},
		{"mysql refuses", stats("mysql://app:" + canary + "@127.0.0.1:3306/shop"), nil},
		{"mysql in the driver's form", stats("app:" + canary + "@tcp(127.0.0.1:1)/shop"), nil},
		{"mysql with a bad escape", stats("mysql://app:" + canary + "%zz@127.0.0.1/shop"), nil},
		{"mysql with a bad parameter", stats("mysql://app:" + canary + "@127.0.0.1/shop?timeout=x"), nil},
		{"postgres down", stats("postgres://app:" + canary + "@127.0.0.1:1/shop"), nil},
		{"postgres refuses", stats("postgres://app:" + canary + "@127.0.0.1:5432/shop"), nil},
		{"postgres with a bad parameter", stats("postgres://app:" + canary + "@h/shop?sslmode=x"), nil},
		{"unknown kind of database", stats("oracle://app:" + canary + "@h/shop"), nil},
		{
			"database in the environment",
			[]string{"migrate", "up"},
			map[string]string{"TRANSMSG_STORE": "mysql://app:" + canary + "@127.0.0.1:1/shop"},
		},
		{"migrate --print", []string{"migrate", "--print", "--store", "mysql://app:" + canary + "@h/shop"}, nil},
		{"redis with a bad escape", daemon("--store", store, "--redis", "redis://app:"+canary+"%zz@h"), nil},
		{"redis down, broker refuses", daemon("--store", store, "--redis", "redis://:"+canary+"@127.0.0.1:1",
			"--amqp", "amqp://app:"+canary+"@127.0.0.1/", "--lock-pause"), nil},
		{
			"webhook down",
			[]string{"alert", "test", "--alert-webhook", "http://app:" + canary + "@127.0.0.1:1/" + canary},
			nil,
		},
		{"webhook with a bad URL", []string{"alert", "test", "--alert-webhook", "ftp://h/" + canary + "%zz"}, nil},
		{
			"webhook's secret without a webhook",
			[]string{"alert", "test", "--alert-webhook-secret-file", secretFile("s", canary)},
			nil,
		},
		{
			"chat down",
			[]string{"alert", "test", "--alert-url", "generic+http://127.0.0.1:1/" + canary + "?x=" + canary},
			nil,
		},
		{"chat with a bad token", []string{"alert", "test", "--alert-url", "slack://" + canary + "@channel"}, nil},
		{"chat of no known kind", []string{"alert", "test", "--alert-url", canary + "://" + canary}, nil},
		{"chats in a file", []string{"alert", "test", "--alert-url-file", secretFile("c", "discord://"+canary)}, nil},
		{
			"daemon with sinks that are down",
			daemon("--store", store, "--amqp", "amqp://127.0.0.1:1/", "--oldest-ready", "1s",
				"--alert-window", "1s", "--alert-webhook", "http://127.0.0.1:1/"+canary,
				"--alert-url", "generic+http://127.0.0.1:1/"+canary),
			nil,
		},
		{"tls key that is none", publish("--amqp", "amqps://h/", "--amqp-tls-cert", secretFile("k", canary),
			"--amqp-tls-key", secretFile("k", canary)), nil},
		{
			"help with everything set",
			[]string{"compensator", "--help"},
			map[string]string{"TRANSMSG_AMQP": "amqp://app:" + canary + "@h/"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // ends the daemon
			defer cancel()
			var out, errs logtest.Buffer
			run(ctx, tt.args, strings.NewReader(""), &out, &errs)
			all := out.String() + errs.String()
			if all == "" {
				t.Error("no output: nothing was tried")
			}
			if strings.Contains(all, canary) || strings.Contains(all, url.QueryEscape(canary)) {
				t.Errorf("the password is in the output:\n%s", all)
			}
		})
	}
}

// The last defence: a driver's text that holds the secret does not get through.
func TestC28_Redactor(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"mysql://app:p%40ss-w0rd@db/shop", "app:p@ss-w0rd@tcp(db)/shop", "amqp://app:p@ss-w0rd@h/",
		"mysql://app:p@ss-w0rd%zz@h/x",
		"host=db user=app password=p@ss-w0rd dbname=x",
	} {
		var out logtest.Buffer
		r := &redactor{out: &out}
		r.addURL(dsn)
		cause := "password p@ss-w0rd, escaped p%40ss-w0rd"
		if strings.Contains(dsn, "%zz") {
			cause = "refused"
		}
		err := fmt.Errorf("open: %w", &url.Error{Op: "dial", URL: dsn, Err: errors.New(cause)})
		slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{ReplaceAttr: r.logged})).Warn("down", "error", err)
		if _, err := fmt.Fprintf(r, "%s\nsee %s\n", r.errorText(err), dsn); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, "ss-w0rd") || strings.Count(got, "xxxxx") < 3 {
			t.Errorf("%s: got %q", dsn, got)
		}
	}
}

// User, password and virtual host with every awkward character, as they are in settings of
// their own, from a file, and percent-encoded in a URL.
func TestC31_SpecialCharacters(t *testing.T) {
	t.Parallel()
	const user, password = "transmsg-test-c31", "p#a%s/s?w@d^"
	shared, err := url.Parse(amqptest.VHost(t))
	if err != nil {
		t.Fatal(err)
	}
	base, admin, err := amqptest.API()
	if err != nil {
		t.Fatal(err)
	}
	api := &brokerAPI{t: t, base: base + "/api/", user: admin}
	vhost := strings.TrimPrefix(shared.Path, "/") + "/a b"
	api.put("vhosts/"+url.PathEscape(vhost), `{}`)
	api.put("users/"+user, `{"password":"`+password+`","tags":""}`)
	for _, name := range []string{user, shared.User.Username()} {
		api.put("permissions/"+url.PathEscape(vhost)+"/"+name, `{"configure":".*","write":".*","read":".*"}`)
	}
	api.put("queues/"+url.PathEscape(vhost)+"/q", `{"durable":true}`)

	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	encoded := url.URL{
		Scheme: "amqp", Host: shared.Host, User: url.UserPassword(user, password), Path: "/" + vhost,
		RawPath: "/" + url.PathEscape(vhost),
	}
	store := migrated(t)
	for name, args := range map[string][]string{
		"parts": {"--amqp-addr", shared.Host, "--amqp-user", user, "--amqp-password", password, "--amqp-vhost", vhost},
		"file":  {"--amqp-addr", shared.Host, "--amqp-user", user, "--amqp-password-file", file, "--amqp-vhost", vhost},
		"URL":   {"--amqp", encoded.String()},
	} {
		args = append([]string{"publish", "--routing-key", "q", "--body", "x", "--store", store}, args...)
		code, out, errs := runIn(t, append(args, "--connect-timeout", "20s")...)
		if code != 0 || !strings.Contains(out, "acked") {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
		}
		if strings.Contains(errs, password) {
			t.Errorf("%s: the password is in the output:\n%s", name, errs)
		}
	}
}

// brokerAPI is RabbitMQ's HTTP API; what it makes is deleted when the test ends.
type brokerAPI struct {
	t    *testing.T
	base string
	user *url.Userinfo
}

func (m *brokerAPI) put(path, body string) {
	m.t.Helper()
	m.call(http.MethodPut, path, body)
	if strings.HasPrefix(path, "vhosts/") || strings.HasPrefix(path, "users/") {
		m.t.Cleanup(func() { m.call(http.MethodDelete, path, "") })
	}
}

func (m *brokerAPI) call(method, path, body string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	password, _ := m.user.Password()
	req.SetBasicAuth(m.user.Username(), password)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode >= 300 {
		m.t.Errorf("%s %s: %s", method, path, res.Status)
	}
}
