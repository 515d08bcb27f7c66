package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/internal/proc"
)

// serverName is in the servers' certificates; their address 127.0.0.1 is not.
const serverName = "broker.test"

// secureBroker is a private node that wants TLS and a client certificate on one port, and
// speaks plainly on another.
func secureBroker(t *testing.T, ca *authority) (plain, secure string) {
	t.Helper()
	cert, key := ca.issue(t, "broker", serverName, "localhost")
	ports, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	secure = fmt.Sprintf("127.0.0.1:%d", ports[0])
	node := amqptest.StartNode(t, amqptest.Options{Config: []string{
		"listeners.ssl.1 = " + secure,
		"ssl_options.cacertfile = " + ca.file,
		"ssl_options.certfile = " + cert,
		"ssl_options.keyfile = " + key,
		"ssl_options.verify = verify_peer",
		"ssl_options.fail_if_no_peer_cert = true",
	}})
	c := amqptest.Connect(t, node.URL())
	if err := c.Queue(amqptest.QueueSpec{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	return node.Addr(), secure
}

// CA, client certificate and server name by flags; every mistake gets a hint in plain
// words, and nothing is ever sent without verification.
func TestC32_BrokerTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	cert, key := ca.issue(t, "client")
	plain, secure := secureBroker(t, ca)
	store := migrated(t)
	trusted := []string{"--amqp-tls-ca", ca.file, "--amqp-tls-server-name", serverName}
	client := []string{"--amqp-tls-cert", cert, "--amqp-tls-key", key}
	for _, tt := range []struct {
		name  string
		url   string // or, when empty, the parts
		flags [][]string
		want  string // on stderr; empty when delivered
	}{
		{"all given", "amqps://" + secure, [][]string{trusted, client}, ""},
		{"by parts", "", [][]string{trusted, client, {"--amqp-tls", "--amqp-addr", secure}}, ""},
		{
			"host name as server name", "amqps://localhost:" + strings.Split(secure, ":")[1],
			[][]string{{"--amqp-tls-ca", ca.file}, client},
			"",
		},
		{
			"unknown authority", "amqps://" + secure,
			[][]string{{"--amqp-tls-server-name", serverName}, client},
			"signed by an authority unknown here",
		},
		{
			"another authority", "amqps://" + secure,
			[][]string{{"--amqp-tls-ca", stranger.file, "--amqp-tls-server-name", serverName}, client},
			"signed by an authority unknown here",
		},
		{
			"address that is not in the certificate", "amqps://" + secure,
			[][]string{{"--amqp-tls-ca", ca.file}, client},
			"set the server name",
		},
		// The broker's alert, or the hint where the connection was gone before it was read.
		{"no client certificate", "amqps://" + secure, [][]string{trusted}, "certificate"},
		{"TLS to the plain port", "amqps://" + plain, [][]string{trusted, client}, "the port does not speak TLS"},
		{"plain to the TLS port", "amqp://" + secure, nil, "does this port want TLS (amqps, usually 5671)?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{
				"publish", "--routing-key", "q", "--store", store, "--connect-timeout", "3s", "--wait", "5s",
			}
			if tt.url != "" {
				args = append(args, "--amqp", tt.url)
			}
			for _, f := range tt.flags {
				args = append(args, f...)
			}
			if tt.want != "" {
				args = append(args, "--wait", "0s")
			}
			code, out, errs := runIn(t, args...)
			if tt.want == "" && (code != 0 || !strings.Contains(out, "acked")) {
				t.Errorf("exit %d, want acked: %s%s", code, out, errs)
			}
			if tt.want != "" && (strings.Contains(out, "acked") || !strings.Contains(errs, tt.want)) {
				t.Errorf("exit %d, want %q on stderr: %s%s", code, tt.want, out, errs)
			}
		})
	}
}

// The settings are the connection's own and the files are read at each dial: ten
// reconnects succeed, with a renewed client certificate half-way, and a CA file that is
// broken for a while does no lasting harm.
func TestC32_TenReconnects(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue(t, "client")
	_, secure := secureBroker(t, ca)
	proxy, err := faultproxy.New(secure)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	sender := openSender(t, "--amqp", "amqps://"+proxy.Addr(), "--amqp-tls-ca", ca.file,
		"--amqp-tls-cert", cert, "--amqp-tls-key", key, "--amqp-tls-server-name", serverName)
	good, err := os.ReadFile(ca.file)
	if err != nil {
		t.Fatal(err)
	}
	connected := func(n uint64) {
		t.Helper()
		waitFor(t, fmt.Sprintf("connection %d is ready", n), func() bool {
			return sender.Ready() && sender.Stats().Generation >= n
		})
	}
	connected(1)
	for i := range uint64(10) {
		switch i {
		case 3:
			if err := os.WriteFile(ca.file, []byte("being replaced"), 0o600); err != nil {
				t.Fatal(err)
			}
			proxy.Cut(true)
			waitFor(t, "a dial without a CA", func() bool {
				return sender.LastError() != nil &&
					strings.Contains(sender.LastError().Error(), "no certificate in PEM")
			})
			if err := os.WriteFile(ca.file, good, 0o600); err != nil {
				t.Fatal(err)
			}
		case 5:
			ca.issue(t, "client") // over the same files
			proxy.Cut(true)
		default:
			proxy.Cut(true)
		}
		connected(i + 2)
	}
}

// openSender makes the sender that these flags describe.
func openSender(t *testing.T, args ...string) *confirms.Sender {
	t.Helper()
	var o amqpOptions
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.bind(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, err := o.config(&app{secrets: &redactor{}}, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	sender, err := confirms.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := sender.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return sender
}

// Mistakes with the settings of TLS are told before anything is dialled.
func TestC32_TLSUsage(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue(t, "client")
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{
			"plain URL", "--amqp-tls-ca: the connection is plain; give an amqps:// URL",
			[]string{"--amqp", "amqp://h/", "--amqp-tls-ca", ca.file},
		},
		{
			"TLS twice", "--amqp and --amqp-tls: give the URL or its parts, not both",
			[]string{"--amqp", "amqps://h/", "--amqp-tls"},
		},
		{
			"certificate without key", "--amqp-tls-cert and --amqp-tls-key: give both",
			[]string{"--amqp", "amqps://h/", "--amqp-tls-cert", cert},
		},
		{
			"key of another certificate", "--amqp-tls-key",
			[]string{"--amqp", "amqps://h/", "--amqp-tls-cert", ca.file, "--amqp-tls-key", key},
		},
		{
			"no such file", "--amqp-tls-ca: read /no/such: no such file or directory",
			[]string{"--amqp", "amqps://h/", "--amqp-tls-ca", "/no/such"},
		},
		{
			"no certificate in it", "has no certificate in PEM",
			[]string{"--amqp", "amqps://h/", "--amqp-tls-ca", key},
		},
		{"SQLite", "--store-tls-ca: SQLite is a file", []string{"--store", "x.db", "--store-tls-ca", ca.file}},
		{
			"plain Redis", "--redis-tls-ca: the connection is plain; give a rediss:// URL",
			[]string{"--redis", "redis://127.0.0.1:1", "--redis-tls-ca", ca.file},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"compensator", "--http", ""}, tt.args...)
			if !strings.Contains(strings.Join(args, " "), "--store ") {
				args = append(args, "--store", migrated(t))
			}
			if code, _, errs := runIn(t, args...); code != exitUsage || !strings.Contains(errs, tt.want) {
				t.Errorf("exit %d, want %d and %q: %s", code, exitUsage, tt.want, errs)
			}
		})
	}
}
