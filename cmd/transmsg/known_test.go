package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// TestF1_CutListsSaySo: a page that leaves rows out says so on stderr, with --json too, and
// a page that is full and complete does not.
func TestF1_CutListsSaySo(t *testing.T) {
	t.Parallel()
	url, _ := queueOf(t)
	store := migrated(t)
	var in strings.Builder
	for i := range 3 {
		fmt.Fprintf(&in, `{"exchange":"missing%d","routing_key":"k","body":"x","not_before":"%s"}`+"\n", i,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}
	file := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(file, []byte(in.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runIn(t, "publish", "--store", store, "--amqp", url, "--jsonl", file); code != 0 {
		t.Fatalf("publish: exit %d: %s", code, errs)
	}
	for _, tc := range []struct {
		verb  []string
		limit int
		says  string
	}{
		{[]string{"list"}, 2, "more messages match: --after 0"},
		{[]string{"list", "--json"}, 2, "more messages match: --after 0"},
		{[]string{"list", "--json"}, 3, ""},
		{[]string{"groups", "--status", "READY"}, 2, "more groups match"},
		{[]string{"groups", "--status", "READY", "--json"}, 2, "more groups match"},
		{[]string{"groups", "--status", "READY", "--json"}, 3, ""},
	} {
		args := append([]string{"messages"}, tc.verb...)
		code, out, errs := runIn(t, append(args, "--store", store, "--limit", fmt.Sprint(tc.limit))...)
		want := tc.limit
		if tc.verb[len(tc.verb)-1] != "--json" {
			want++ // the header
		}
		if n := strings.Count(out, "\n"); code != 0 || n != want {
			t.Errorf("%v --limit %d: exit %d, %d lines, want %d\n%s", tc.verb, tc.limit, code, n, want, out)
		}
		if (tc.says == "") != (errs == "") || !strings.Contains(errs, tc.says) {
			t.Errorf("%v --limit %d says %q, want %q", tc.verb, tc.limit, errs, tc.says)
		}
	}
}

// TestF1_DeadAtOnceAndNacked: the last attempt allowed is told as DEAD, not as something
// that a compensator sends; a nack is an answer, exit code 3.
func TestF1_DeadAtOnceAndNacked(t *testing.T) {
	t.Parallel()
	url, c := queueOf(t)
	full := amqptest.QueueSpec{Name: "full", Args: amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}}
	if err := c.Queue(full); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(t.Context(), "", "full", amqp.Publishing{Body: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	const compensates, replays = "a compensator on this store sends them again", "1 went DEAD at once"
	for key, outcome := range map[string]string{"full": "nacked", "nobody": "returned (312"} {
		for attempts, want := range map[string][2]string{"1": {replays, compensates}, "2": {compensates, replays}} {
			code, out, errs := runIn(t, "publish", "--store", migrated(t), "--amqp", url, "--routing-key", key,
				"--body", "x", "--max-attempts", attempts, "--min-dead-age", "0")
			if code != 3 || !strings.Contains(out, outcome) {
				t.Errorf("%s, %s attempts: exit %d, want 3 with %q: %s", key, attempts, code, outcome, out)
			}
			if !strings.Contains(errs, want[0]) || strings.Contains(errs, want[1]) {
				t.Errorf("%s, %s attempts: want %q and not %q:\n%s", key, attempts, want[0], want[1], errs)
			}
		}
	}
}

// TestF1_SIGTERMWhileTheDatabaseIsSilent: the daemon was asked to stop and stops: 0, so that a
// supervisor does not start it again.
func TestF1_SIGTERMWhileTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := start(t, nil, "compensator", "--store", "mysql://app@"+silent.Addr().String()+"/db")
	conn, err := silent.Accept() // and no greeting
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, code := p.stop(t); code != 0 || !strings.Contains(p.stderr.String(), "stopped before the database answered") {
		t.Errorf("exit %d, want 0:\n%s", code, p.stderr.String())
	}
}

// TestF7_SIGHUPDrains: a closed terminal asks for the same as SIGTERM.
func TestF7_SIGHUPDrains(t *testing.T) {
	t.Parallel()
	url, _ := queueOf(t)
	p := start(t, nil, "compensator", "--store", migrated(t), "--amqp", url, "--http", "127.0.0.1:0")
	waitFor(t, "started", func() bool { return strings.Contains(p.stderr.String(), "compensator started") })
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range p.lines {
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGHUP: %v, want exit code 0:\n%s", err, p.stderr.String())
	}
}

// TestF5_DamagedExportLineIsRefused: each byte of a line is changed once, in each of its bits,
// and no damaged line gets through as another message.
func TestF5_DamagedExportLineIsRefused(t *testing.T) {
	t.Parallel()
	var line bytes.Buffer
	row := jsonExport{
		ID: "01890000-0000-7000-8000-000000000001", Service: "shop", Status: "READY", Key: `a,"checksum":"b`,
		Body: []byte("1000 EUR"), Properties: []byte("{}"), LastError: "\xff<ä>", Epoch: 3,
	}
	if err := printExport(&line, row); err != nil {
		t.Fatal(err)
	}
	whole, ok := strings.CutSuffix(line.String(), "\n")
	if !ok || strings.Contains(whole, "\n") {
		t.Fatalf("not one line: %q", line.String())
	}
	want, err := importLine([]byte(whole))
	if err != nil {
		t.Fatalf("an undamaged line: %v", err)
	}
	if string(want.Payload) != "1000 EUR" || want.MessageKey != row.Key || want.Epoch != 3 {
		t.Fatalf("an undamaged line is read as %+v", want)
	}
	for at := range whole {
		for bit := range 8 {
			damaged := []byte(whole)
			damaged[at] ^= 1 << bit
			got, err := importLine(damaged)
			// In upper case the digits of the checksum are the same number.
			if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("byte %d, bit %d: taken as %+v:\n%s", at, bit, got, damaged)
			}
		}
		if _, err := importLine([]byte(whole[:at])); err == nil {
			t.Fatalf("cut after %d bytes: taken", at)
		}
	}
	bare := whole[:strings.LastIndex(whole, checksumField)] + "}" // of an earlier version
	if _, err := importLine([]byte(bare)); err != nil {
		t.Errorf("without a checksum: %v", err)
	}
}
