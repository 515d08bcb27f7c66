package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
)

// patience bounds each wait of a script for a named state.
const patience = 2 * time.Minute

// TestScripts runs the transcripts. Beside testscript's own commands they have:
//
//	exits CODE COMMAND...   run it; fail unless it exits with CODE
//	vhost                   a fresh virtual host; its URL is $AMQP, its name $VHOST
//	database KIND           a fresh database of mysql, postgres or sqlite; its DSN is $STORE
//	queue NAME...           declare queues in it
//	deliveries NAME N FILE  take N messages from the queue, in order of body, as JSON lines
//	empty NAME              fail unless nothing is in the queue
//	lines N FILE            fail unless the file has N lines; FILE may be stdout
//	freeport                a free port on loopback; its address is $ADDR
//	get CODE URL TEXT       poll until URL answers CODE with a body that contains TEXT
//	listed N ARGS...        poll `transmsg messages list --json ARGS` until it has N lines
//	binary FILE             write all 256 byte values
//	webhook CODE FILE       a server at $HOOK that answers CODE and adds each body to FILE, once its
//	                        signature by the secret "s3cret-of-the-test" is verified
//	found NAME REGEXP       set $NAME to what the group of REGEXP matches in stdout
//	term                    send SIGTERM to all background processes
func TestScripts(t *testing.T) {
	testscript.Run(t, scriptParams("testdata", ""))
}

// TestStoreScripts runs the transcripts of the operators' verbs on each kind of database.
func TestStoreScripts(t *testing.T) {
	for _, kind := range []string{"mysql", "postgres", "sqlite"} {
		t.Run(kind, func(t *testing.T) { testscript.Run(t, scriptParams("testdata/stores", kind)) })
	}
}

func scriptParams(dir, kind string) testscript.Params {
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			// The race detector's wait of a second at each exit adds up.
			exports, err := filepath.Abs("../../topology/testdata")
			env.Vars = append(env.Vars, "GORACE=atexit_sleep_ms=10", "KIND="+kind, "EXPORTS="+exports)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      scriptExits,
			"vhost":      scriptVHost,
			"database":   scriptDatabase,
			"queue":      scriptQueue,
			"deliveries": scriptDeliveries,
			"empty":      scriptEmpty,
			"lines":      scriptLines,
			"freeport":   scriptFreePort,
			"get":        scriptGet,
			"listed":     scriptListed,
			"binary":     scriptBinary,
			"webhook":    scriptWebhook,
			"term":       scriptTerm,
			"found":      scriptFound,
		},
		RequireExplicitExec: true,
	}
}

func want(ts *testscript.TestScript, neg, ok bool, usage string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

func scriptFound(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 2, "found NAME REGEXP")
	expression, err := regexp.Compile(args[1])
	ts.Check(err)
	match := expression.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(match) != 2 {
		ts.Fatalf("no match for %q in stdout", args[1])
	}
	ts.Setenv(args[0], match[1])
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) >= 2, "exits CODE COMMAND...")
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got := strconv.Itoa(code); got != args[0] {
		ts.Fatalf("%s exited with %s, want %s", args[1], got, args[0])
	}
}

// soon is a context for one step of a script.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func scriptVHost(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 0, "vhost")
	ctx, cancel := soon()
	defer cancel()
	url, drop, err := amqptest.NewVHost(ctx)
	ts.Check(err)
	ts.Defer(func() { ts.Check(drop()) })
	ts.Setenv("AMQP", url)
	ts.Setenv("VHOST", path.Base(url))
}

func scriptDatabase(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "database mysql|postgres|sqlite")
	if args[0] == "sqlite" {
		ts.Setenv("STORE", "sqlite:"+ts.MkAbs("test.db"))
		return
	}
	create := dbtest.NewMySQL
	if args[0] == "postgres" {
		create = dbtest.NewPostgres
	}
	ctx, cancel := soon()
	defer cancel()
	dsn, drop, err := create(ctx)
	ts.Check(err)
	ts.Defer(func() { ts.Check(drop()) })
	ts.Setenv("STORE", dsn)
}

// withBroker runs f on a connection to the script's virtual host.
func withBroker(ts *testscript.TestScript, f func(*amqptest.Client) error) {
	c, err := amqptest.Dial(ts.Getenv("AMQP"))
	ts.Check(err)
	ts.Check(errors.Join(f(c), c.Close()))
}

func scriptQueue(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) > 0, "queue NAME...")
	withBroker(ts, func(c *amqptest.Client) error {
		for _, name := range args {
			if err := c.Queue(amqptest.QueueSpec{Name: name}); err != nil {
				return err
			}
		}
		return nil
	})
}

// scriptDelivery is one line of deliveries.
type scriptDelivery struct {
	ID          string
	Body        []byte `json:"-"`
	Text        string // the body, quoted as Go does
	SHA256      string
	Size        int
	ContentType string
	Type        string
	Priority    uint8
	Persistent  bool
	Timestamp   bool
	Headers     map[string]string
}

func scriptDeliveries(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 3, "deliveries QUEUE N FILE")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var got []scriptDelivery
	withBroker(ts, func(c *amqptest.Client) error {
		ctx, cancel := soon()
		defer cancel()
		ds, err := c.Collect(ctx, args[0], n)
		for _, d := range ds {
			headers := map[string]string{}
			for k, v := range d.Headers {
				headers[k] = fmt.Sprintf("%T %v", v, v)
			}
			got = append(got, scriptDelivery{
				ID: d.MessageId, Body: d.Body, Text: fmt.Sprintf("%q", d.Body),
				SHA256: fmt.Sprintf("%x", sha256.Sum256(d.Body)), Size: len(d.Body), ContentType: d.ContentType,
				Type: d.Type, Priority: d.Priority, Persistent: d.DeliveryMode == 2,
				Timestamp: !d.Timestamp.IsZero(), Headers: headers,
			})
		}
		return err
	})
	slices.SortFunc(got, func(a, b scriptDelivery) int { return bytes.Compare(a.Body, b.Body) })
	var file bytes.Buffer
	for _, d := range got {
		b, err := json.Marshal(d)
		ts.Check(err)
		file.Write(append(b, '\n'))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), file.Bytes(), 0o600))
}

func scriptEmpty(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "empty QUEUE")
	withBroker(ts, func(c *amqptest.Client) error {
		n, err := c.Depth(args[0])
		if err == nil && n != 0 {
			err = fmt.Errorf("%d messages in queue %s", n, args[0])
		}
		return err
	})
}

func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 2, "lines N FILE")
	if got := strings.Count(ts.ReadFile(args[1]), "\n"); strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s has %d lines, want %s", args[1], got, args[0])
	}
}

func scriptFreePort(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 0, "freeport")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv("ADDR", l.Addr().String())
	ts.Check(l.Close())
}

// poll tries until f has no error and fails with the last one.
func poll(ts *testscript.TestScript, f func() error) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after %v: %v", patience, err)
		}
		<-tick.C
	}
}

func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 3, "get CODE URL TEXT")
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	poll(ts, func() error {
		res, err := client.Get(args[1])
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err == nil && (strconv.Itoa(res.StatusCode) != args[0] || !strings.Contains(string(body), args[2])) {
			err = fmt.Errorf("%s answers %d: %s", args[1], res.StatusCode, body)
		}
		return err
	})
}

func scriptListed(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) >= 1, "listed N ARGS...")
	poll(ts, func() error {
		if err := ts.Exec("transmsg", append([]string{"messages", "list", "--json"}, args[1:]...)...); err != nil {
			return err
		}
		if got := strings.Count(ts.ReadFile("stdout"), "\n"); strconv.Itoa(got) != args[0] {
			return fmt.Errorf("%d rows are listed, want %s", got, args[0])
		}
		return nil
	})
}

func scriptBinary(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "binary FILE")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), all, 0o600))
}

func scriptWebhook(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 2, "webhook CODE FILE")
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	path := ts.MkAbs(args[1])
	var one sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = alert.Verify([]byte("s3cret-of-the-test"), r.Header.Get(alert.SignatureHeader), body, time.Minute)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.Write(append(body, '\n'))
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			code = http.StatusInternalServerError
		}
		w.WriteHeader(code)
	}))
	ts.Defer(server.Close)
	ts.Setenv("HOOK", server.URL)
}

func scriptTerm(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 0, "term")
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}
