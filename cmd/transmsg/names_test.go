package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/logtest"
)

// TestS1_NamesThatEqualSecretsStay: every secret of the daemon and of the operator is also the
// name of something that they print. No name, field or command is altered, and no secret stands
// where a secret stands.
func TestS1_NamesThatEqualSecretsStay(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, of := range []string{"service", "exchange", "routing key", "business key"} {
		names[of] = fmt.Sprintf("%s%04x", strings.Fields(of)[0], rand.IntN(1<<16))
	}
	store := trusting(t, names["service"])
	broker := withUser(t, amqptest.VHost(t), names["exchange"])
	alerts := make(chan []byte, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		alerts <- body
	}))
	defer hook.Close()
	in := `{"exchange":"` + names["exchange"] + `","routing_key":"` + names["routing key"] + `","key":"` +
		names["business key"] + `","body":"x"}` + "\n"
	var out, errs logtest.Buffer
	code := run(t.Context(), []string{
		"publish", "--jsonl", "-", "--store", store, "--amqp", broker, "--service", names["service"],
		"--max-attempts", "1", "--min-dead-age", "0", "--log-level", "debug",
	}, strings.NewReader(in), &out, &errs)
	if code != exitKept {
		t.Fatalf("publish: exit %d: %s", code, errs.String())
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{
			"compensator", "--store", store, "--amqp", broker, "--http", "", "--log-level", "debug",
			"--alert-webhook", hook.URL + "/" + names["routing key"],
			"--alert-webhook-secret", names["business key"], "--interval", "50ms",
		}, strings.NewReader(""), &out, &errs)
	}()
	body := <-alerts
	stop()
	<-ended
	var told struct{ Service, Exchange, Command, Resend string }
	if err := json.Unmarshal(body, &told); err != nil || told.Service != names["service"] {
		t.Fatalf("the alert is of another service: %s (%v)", body, err)
	}
	wantInLog(t, errs.String(), told.Command, told.Resend, names)
	wantInTables(t, store, names)
	for _, text := range []string{errs.String(), out.String()} {
		for _, secret := range names {
			if strings.Contains(text, ":"+secret+"@") || strings.Contains(text, hook.URL+"/") {
				t.Errorf("the secret %s stands in a URL:\n%s", secret, text)
			}
		}
	}
}

func wantInLog(t *testing.T, log, command, resend string, names map[string]string) {
	t.Helper()
	for _, want := range []string{
		"alert.service=" + names["service"], "alert.exchange=" + names["exchange"],
		"alert.routing_key=" + names["routing key"], "alert.key=" + names["business key"],
		"alert.command=\"" + command + "\"", "alert.resend=\"" + resend + "\"",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, hidden) {
		t.Errorf("the log has something hidden, and no URL to hide it in:\n%s", log)
	}
}

// wantInTables looks at the operators' verbs; of the command that a preview prints the DSN alone
// has something hidden.
func wantInTables(t *testing.T, store string, names map[string]string) {
	t.Helper()
	dsn := strings.Replace(store, ":"+names["service"]+"@", ":"+hidden+"@", 1)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"messages", "list"}, names["service"]},
		{[]string{"messages", "groups"}, names["exchange"]},
		{[]string{"stats"}, names["service"]},
		{
			[]string{"messages", "replay", "--service", names["service"], "--exchange", names["exchange"]},
			"transmsg messages replay --exchange " + names["exchange"] + " --service " + names["service"] +
				" --store '" + dsn + "' --yes",
		},
	} {
		code, out, errs := runIn(t, append(tc.args, "--store", store)...)
		if code != 0 || !strings.Contains(out, tc.want) || strings.Contains(strings.Replace(out, dsn, "", 1), hidden) {
			t.Errorf("%v: exit %d, want %q:\n%s%s", tc.args, code, tc.want, out, errs)
		}
	}
	id := "01890000-0000-7000-8000-00000000000f"
	withID := strings.Replace(store, ":"+names["service"]+"@", ":"+id+"@", 1)
	code, _, errs := runIn(t, "messages", "show", id, "--store", withID)
	if code != 1 || !strings.Contains(errs, "no message "+id+" is stored") {
		t.Errorf("show: exit %d, the id that is a password too is not in: %s", code, errs)
	}
}

// trusting is a migrated database on a server that takes any password.
func trusting(t *testing.T, password string) string {
	t.Helper()
	dsn, drop, err := dbtest.NewPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	if code, _, errs := runIn(t, "migrate", "up", "--store", u.String()); code != 0 {
		t.Fatalf("migrate: exit %d: %s", code, errs)
	}
	return u.String()
}

// withUser is the virtual host's URL for a user of its own with this password.
func withUser(t *testing.T, vhost, password string) string {
	t.Helper()
	u, err := url.Parse(vhost)
	if err != nil {
		t.Fatal(err)
	}
	base, admin, err := amqptest.API()
	if err != nil {
		t.Fatal(err)
	}
	api, user := &brokerAPI{t: t, base: base + "/api/", user: admin}, fmt.Sprintf("transmsg-test-%08x", rand.Uint32())
	api.put("users/"+user, `{"password":"`+password+`","tags":""}`)
	api.put("permissions/"+url.PathEscape(strings.TrimPrefix(u.Path, "/"))+"/"+user,
		`{"configure":".*","write":".*","read":".*"}`)
	u.User = url.UserPassword(user, password)
	return u.String()
}

// TestS1_NoSecretNoFieldAltered, over random secrets, many of which equal names in use: an error
// of a library holds none of them, and neither does a URL; all else is byte for byte as it was.
func TestS1_NoSecretNoFieldAltered(t *testing.T) {
	t.Parallel()
	words := []string{"orders", "shop", "hook", "READY", "a:b", "a@b", "01890000-0000-7000-8000-00000000000f", "312"}
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for range 500 {
		secret := words[r.IntN(len(words))]
		if r.IntN(2) == 0 {
			secret = fmt.Sprintf("z%dq%c%x", r.IntN(100), "/?#[]@:!$&'()*+,;=%^|{}~ \"<>\\"[r.IntN(29)], r.Uint32())
		}
		dsn := (&url.URL{Scheme: "amqp", User: url.UserPassword("app", secret), Host: "broker"}).String()
		var out logtest.Buffer
		red := &redactor{out: &out}
		red.addURL(dsn)
		library := fmt.Errorf("dial %s: %w", strings.Join(words, " "), errors.Join(
			&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused with " + secret)},
			&url.Error{Op: "parse", URL: dsn, Err: errors.New("bad")},
		))
		fields := make([]any, 0, 2*len(words)+2)
		for i, w := range words {
			fields = append(fields, fmt.Sprint("f", i), "<"+w+">")
		}
		log := slog.New(slog.NewJSONHandler(red, &slog.HandlerOptions{ReplaceAttr: red.logged}))
		log.Warn("row", append(fields, "error", library)...)
		line, text := map[string]any{}, out.String()
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for i, w := range words {
			if got := line[fmt.Sprint("f", i)]; got != "<"+w+">" {
				t.Errorf("secret %q: the field %q became %q", secret, w, got)
			}
		}
		said, _ := line["error"].(string)
		if own := "dial " + strings.Join(words, " ") + ": "; !strings.HasPrefix(said, own) {
			t.Errorf("secret %q: our words became %q", secret, said)
		} else if rest := strings.TrimPrefix(said, own); len(secret) >= minSecret && strings.Contains(rest, secret) ||
			strings.Contains(rest, dsn) {
			t.Errorf("secret %q is in %q", secret, rest)
		}
	}
}
