package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// collected stores dead letters of a queue in a new store, as the collector does.
func collected(t *testing.T, queue string, n int, edit ...func(*model.DeadLetter)) (store string, ids []string) {
	t.Helper()
	store = migrated(t)
	return store, collectInto(t, store, queue, n, edit...)
}

func collectInto(t *testing.T, store, queue string, n int, edit ...func(*model.DeadLetter)) (ids []string) {
	t.Helper()
	s := letterStore(t, store)
	list := make([]model.DeadLetter, n)
	for i := range list {
		m := model.Message{ID: model.NewID(), Headers: map[string]any{model.HeaderKey: "order-1", "tenant": "a"}}
		r := model.Rejected{
			Source: queue, Exchange: "orders", RoutingKey: "order.paid", Properties: model.EncodeWire(&m),
			Body: fmt.Appendf(nil, `{"n":%d}`, i),
		}
		list[i] = r.Letter("shop")
		list[i].Cause = "permanent"
		for _, f := range edit {
			f(&list[i])
		}
		ids = append(ids, list[i].ID)
	}
	if err := s.Collect(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return ids
}

// letterStore opens the store beside the command.
func letterStore(t *testing.T, dsn string) *gormstore.Store {
	t.Helper()
	s, err := anystore.Open(t.Context(), dsn, gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// letters runs a verb on dead letters and wants this exit code.
func letters(t *testing.T, want int, store string, args ...string) (stdout, stderr string) {
	t.Helper()
	code, out, errs := runIn(t, append(append([]string{"dead-letters"}, args...), "--store", store)...)
	if code != want {
		t.Fatalf("dead-letters %v: exit %d, want %d: %s%s", args, code, want, out, errs)
	}
	return out, errs
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: %q is not in:\n%s", what, p, text)
		}
	}
}

// A replay shows what it would do, does it with --yes, and does nothing at a second click, and says so.
func TestDeadLettersAreReplayedOnce(t *testing.T) {
	t.Parallel()
	store, ids := collected(t, "payments", 3)
	out, _ := letters(t, 0, store, "replay", "--queue", "payments")
	contains(t, "preview", out, "would replay 3 dead letters", "3 OPEN of queue payments, cause permanent",
		"Nothing was changed. To replay:", "transmsg dead-letters replay --queue payments", "--yes")
	if n := listed(t, store); n != 0 {
		t.Fatalf("a preview stored %d messages", n)
	}
	out, errs := letters(t, 0, store, "replay", "--queue", "payments", "--yes", "--actor", "ann", "--reason", "mended")
	contains(t, "replay", out+errs, "3 dead letters replayed as ann", "dead-letters groups --status REPLAYED")
	for _, again := range [][]string{{"--queue", "payments"}, ids} {
		out, errs = letters(t, 0, store, append([]string{"replay", "--yes"}, again...)...)
		contains(t, "second click", out, "0 dead letters replayed")
	}
	contains(t, "second click", errs, "3 of the 3 ids: REPLAYED, sent back already")
	if n := listed(t, store); n != 3 {
		t.Errorf("%d messages after three clicks, want 3", n)
	}
	out, _ = letters(t, 0, store, "groups", "--status", "REPLAYED")
	contains(t, "groups", out, "of 3 replayed: 3 waiting")
	out, _ = letters(t, 0, store, "list", "--json")
	var l jsonLetter
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &l); err != nil || l.Became != "waiting" ||
		l.ReplayID == "" || l.Status != "REPLAYED" || l.Queue != "payments" || l.MessageID == nil {
		t.Errorf("list: %v: %s", err, out)
	}
	out, _ = letters(t, 0, store, "show", ids[0])
	contains(t, "show", out, "it became", "waiting", `header "tenant"`, "mended", "ann", "as message "+l.ReplayID[:8])
	code, out, _ := runIn(t, "messages", "show", l.ReplayID, "--store", store)
	if contains(t, "the message", out, "of dead letter "+l.ID); code != 0 {
		t.Errorf("messages show: exit %d", code)
	}
}

// What cannot be replayed stays, says why, and is no part of the count.
func TestDeadLettersThatCannotBeReplayedSayWhy(t *testing.T) {
	t.Parallel()
	store, _ := collected(t, "q", 1)
	bad := collectInto(t, store, "q", 1, func(l *model.DeadLetter) { l.Unreplayable = "it cannot be sent as it came" })
	_ = collectInto(t, store, "q", 1, func(l *model.DeadLetter) { l.Exchange = "x\xff" })
	out, errs := letters(t, 0, store, "replay", "--queue", "q")
	contains(t, "preview", out, "would replay 2 dead letters")
	contains(t, "preview", errs, "1 dead letter cannot be sent again as it came")
	out, _ = letters(t, 0, store, "replay", "--queue", "q", "--to-exchange", "--yes", "--json")
	var done jsonLetterAct
	if err := json.Unmarshal([]byte(out), &done); err != nil || done.DeadLetters != 1 || len(done.Refused) != 1 ||
		!strings.Contains(done.Refused[0].Why, "exchange") {
		t.Errorf("replay: %v: %s", err, out)
	}
	out, _ = letters(t, 0, store, "list", "--status", "OPEN")
	contains(t, "list", out, bad[0], "cannot be replayed: it cannot be sent as it came")
	_, errs = letters(t, 0, store, "replay", bad[0], "--yes")
	contains(t, "replay of it", errs, "1 dead letter cannot be sent again as it came")
}

// Through the exchange the preview says how many queues that is; by default it goes to the one queue and says nothing.
func TestDeadLettersReplayToExchangeSaysWhichQueuesItReaches(t *testing.T) {
	t.Parallel()
	broker := amqptest.VHost(t)
	c := amqptest.Connect(t, broker)
	if err := c.Exchange("orders", "topic", nil); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"payments", "mails"} {
		if err := c.Queue(amqptest.QueueSpec{Name: q}); err != nil {
			t.Fatal(err)
		}
		if err := c.Bind(q, "orders", "order.*"); err != nil {
			t.Fatal(err)
		}
	}
	store, _ := collected(t, "payments", 2)
	api := managementFlags(t, broker)
	out, _ := letters(t, 0, store, append([]string{"replay", "--all", "--to-exchange"}, api...)...)
	contains(t, "with the API", out,
		`exchange "orders", routing key "order.paid" reaches: 2 queues: "mails", "payments"`)
	out, _ = letters(t, 0, store, "replay", "--all", "--to-exchange")
	contains(t, "without", out, "Warning: through the exchange every queue", "how many queues that is: unknown")
	out, _ = letters(t, 0, store, "replay", "--all")
	if strings.Contains(out, "Warning") {
		t.Errorf("a replay to the one queue warns:\n%s", out)
	}
}

// The preview warns of what consumers may have forgotten, and of new ids.
func TestDeadLettersReplayWarnsOfOldOnesAndNewIDs(t *testing.T) {
	t.Parallel()
	store, _ := collected(t, "q", 2, func(l *model.DeadLetter) { l.FirstAt = 1 })
	out, _ := letters(t, 0, store, "replay", "--all")
	contains(t, "old ones", out,
		"Warning: 2 dead letters first failed longer ago than inbox records are kept (720h0m0s)")
	out, _ = letters(t, 0, store, "replay", "--all", "--inbox-retention", "0")
	if strings.Contains(out, "Warning") {
		t.Errorf("records that are kept for ever: warns\n%s", out)
	}
	out, _ = letters(t, 0, store, "replay", "--all", "--as-new")
	contains(t, "as new", out, "Warning: with new ids every consumer deals with the messages once more")
}

// Discard, erase and their selections. PARKED ones are never part of an act that does not name them.
func TestDeadLettersDiscardAndErase(t *testing.T) {
	t.Parallel()
	store, ids := collected(t, "q", 2)
	parked := collectInto(t, store, "q", 1, func(l *model.DeadLetter) { l.Replays, l.Status = 1, model.LetterParked })
	out, _ := letters(t, 0, store, "discard", "--queue", "q", "--max", "1", "--yes", "--json")
	var done jsonLetterAct
	if err := json.Unmarshal([]byte(out), &done); err != nil || done.DeadLetters != 1 || !done.More {
		t.Errorf("discard: %v: %s", err, out)
	}
	out, _ = letters(t, 0, store, "discard", "--all", "--yes")
	contains(t, "the rest", out, "1 dead letter discarded")
	out, _ = letters(t, 0, store, "replay", "--all", "--yes")
	contains(t, "PARKED by --all", out, "0 dead letters replayed")
	out, _ = letters(t, 0, store, "replay", parked[0])
	contains(t, "PARKED by id", out, "would replay 1 dead letter")
	out, _ = letters(t, 0, store, "erase", "--queue", "q", "--yes")
	contains(t, "erase", out, "3 dead letters erased")
	out, _ = letters(t, 0, store, "show", ids[0])
	contains(t, "erased", out, "its content was erased", "0 bytes", "order-1", "erase")
	_, errs := letters(t, 1, store, "show", ids[0], "--body")
	contains(t, "body", errs, "was erased at")
}

// Mistakes on the command line are named, with exit code 2, and nothing is done.
func TestDeadLettersRefuseMistakes(t *testing.T) {
	t.Parallel()
	store, ids := collected(t, "q", 1)
	for want, args := range map[string][]string{
		"which dead letters? Give ids, a filter such as --queue or --cause": {"replay", "--yes"},
		"--all and ids":                            {"replay", "--all", ids[0]},
		"--all and --queue":                        {"discard", "--all", "--queue", "q"},
		"--queue is empty":                         {"replay", "--queue", ""},
		`--status "READY" must be OPEN`:            {"list", "--status", "READY"},
		"only OPEN and PARKED dead letters can be": {"replay", "--status", "REPLAYED", "--queue", "q"},
		"--rate -1 must be 0 or more":              {"replay", "--all", "--rate", "-1"},
		"--max 0 must be 1 to 100000":              {"erase", "--queue", "q", "--max", "0"},
		"--all: give --status too":                 {"erase", "--all"},
		"--original: give --body too":              {"show", ids[0], "--original"},
		"a verb is missing: discard, ":             nil,
	} {
		code, _, errs := runIn(t, append(append([]string{"dead-letters"}, args...), "--store", store)...)
		if args == nil {
			code, _, errs = runIn(t, "dead-letters")
		}
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, want 2 and %q: %s", args, code, want, errs)
		}
	}
	_, errs := letters(t, 1, store, "show", model.NewID())
	contains(t, "no letter", errs, "no dead letter", "dead-letters list --message-id")
	if got := listed(t, store); got != 0 {
		t.Errorf("%d messages were stored", got)
	}
}
