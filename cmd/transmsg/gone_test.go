package main

import (
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// TestS7_AGoneMessageIsTold: show and history say what the log still knows of a message that was
// discarded, of one that was delivered after a failure, and of one that left no line.
func TestS7_AGoneMessageIsTold(t *testing.T) {
	t.Parallel()
	store, broker := migrated(t), amqptest.VHost(t)
	publishDead(t, store, broker, 2)
	_, out, _ := runIn(t, "messages", "list", "--store", store)
	lines := strings.Split(out, "\n")
	discarded, sent := strings.Fields(lines[1])[0], strings.Fields(lines[2])[0]
	acted(t, "messages", "discard", discarded, "--yes", "--json", "--actor", "ann", "--reason", "sent by hand",
		"--store", store)
	acted(t, "messages", "replay", sent, "--yes", "--json", "--store", store)
	if err := amqptest.Connect(t, broker).Queue(amqptest.QueueSpec{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	daemon := start(t, nil, "compensator", "--store", store, "--amqp", broker, "--http", "", "--interval", "50ms")
	waitFor(t, "all rows settled", func() bool { return listed(t, store) == 0 })
	daemon.stop(t)
	const never = "01890000-0000-7000-8000-00000000000f"
	for _, tc := range []struct {
		id       string
		history  int // exit code
		says     []string
		lastLine string
	}{
		{discarded, 0, []string{" is stored any more: discarded at 20", "by ann: sent by hand"}, " discard "},
		{
			sent, 0,
			[]string{" is stored any more", "its last line is replay 312", "the broker took it after"},
			" replay ",
		},
		{never, 1, []string{" is stored", "made at 2023-06-28", "message-id property", "--event-retention"}, ""},
	} {
		code, out, errs := runIn(t, "messages", "history", tc.id, "--store", store)
		if code != tc.history || !strings.Contains(out, tc.lastLine) {
			t.Errorf("history %s: exit %d, want %d with %q:\n%s", tc.id, code, tc.history, tc.lastLine, out)
		}
		showCode, _, showErrs := runIn(t, "messages", "show", tc.id, "--store", store)
		for _, says := range append(tc.says, "no message "+tc.id) {
			if showCode != 1 || !strings.Contains(errs, says) || !strings.Contains(showErrs, says) {
				t.Errorf("%s: want %q from history and show (exit %d):\n%s\n%s", tc.id, says, showCode, errs, showErrs)
			}
		}
	}
}

// TestS7_NoBareHeader: where there is nothing to print, the verbs say so, and what there is.
func TestS7_NoBareHeader(t *testing.T) {
	t.Parallel()
	empty, one := migrated(t), migrated(t)
	if code, _, errs := runIn(t, "publish", "--store", one, "--amqp", amqptest.VHost(t), "--routing-key", "q",
		"--service", "shop", "--body", "x"); code != exitKept {
		t.Fatalf("publish: exit %d: %s", code, errs)
	}
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"stats", "--store", empty}, "nothing is stored: 0 READY, 0 DEAD\n"},
		{[]string{"messages", "groups", "--store", empty}, "nothing is DEAD; stored: 0 READY, 0 DEAD\n"},
		{[]string{"messages", "groups", "--store", one}, "nothing is DEAD; stored: 1 READY, 0 DEAD\n"},
		{
			[]string{"messages", "groups", "--store", one, "--service", "shop"},
			"nothing is DEAD; stored of service shop: 1 READY, 0 DEAD\n",
		},
		{
			[]string{"messages", "groups", "--store", one, "--status", "READY", "--code", "404"},
			"no READY message matches; stored: 1 READY, 0 DEAD\n",
		},
		{[]string{"messages", "list", "--store", empty}, "no message matches; counts: transmsg stats\n"},
	} {
		if code, out, errs := runIn(t, tc.args...); code != 0 || out != tc.says {
			t.Errorf("%v: exit %d %q %s, want %q", tc.args, code, out, errs, tc.says)
		}
		if code, out, errs := runIn(t, append(tc.args, "--json")...); code != 0 || out != "" {
			t.Errorf("%v --json: exit %d %q %s, want nothing", tc.args, code, out, errs)
		}
	}
}
