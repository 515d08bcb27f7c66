package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// nameRounds is how often names are compared, each time with other ones.
const nameRounds = 3

// names runs compensators whose secrets are also the names of a service, an exchange, a routing
// key and a business key: what is printed has each name as it is, and no secret where a secret
// stands.
func (s *secrets) names(ctx context.Context) error {
	for round := range nameRounds {
		n := &namedRun{secretRun: &secretRun{secrets: s, role: "transmsg_test_" + letters(s.Rand, 10)}}
		for i := range n.words {
			n.words[i] = letters(s.Rand, 4+s.Rand.IntN(8)) + []string{"", ".eu", "-2", "_x"}[s.Rand.IntN(4)]
		}
		if err := n.round(ctx, round); err != nil {
			return fmt.Errorf("names that are secrets: %w", err)
		}
	}
	return nil
}

// namedRun is one of them. Its words are the names of service, exchange, routing key and
// business key, and the passwords of database and broker, the webhook's path and its secret.
type namedRun struct {
	*secretRun
	words [4]string
	id    string
}

func (n *namedRun) round(ctx context.Context, round int) error {
	dsn, err := n.addRole(n.words[0])
	if err != nil {
		return err
	}
	user := fmt.Sprintf("names%d", round)
	if err := n.node.AddUser(user, n.words[1], ".*", ".*", ".*"); err != nil {
		return err
	}
	if n.hook, err = n.newWebhook(n.words[2], n.words[3]); err != nil {
		return err
	}
	ids, err := n.shelve(ctx, n.words[0], []model.Message{{
		Exchange: n.words[1], RoutingKey: n.words[2], Key: n.words[3], Body: []byte("x"),
	}})
	if err != nil {
		return err
	}
	n.id = ids[0]
	r, err := n.bareReplica(n.binary, user, "--store", dsn, "--services", n.words[0],
		"--amqp", "amqp://"+user+":"+n.words[1]+"@"+n.node.Addr()+"/", "--http", "",
		"--alert-webhook", n.hook.url, "--alert-webhook-secret", n.words[3], "--alert-window", "1s",
		"--interval", "100ms", "--max-attempts", "1", "--min-dead-age", "0",
		"--log-format", "json", "--log-level", "debug")
	if err != nil {
		return err
	}
	n.all = []replica{r}
	if err := until(ctx, time.Minute, "the DEAD row is told", func(context.Context) (bool, error) {
		ours := func(a hookAlert) bool { return a.Service == n.words[0] }
		return slices.ContainsFunc(n.hook.dead(), ours), nil
	}); err != nil {
		return fmt.Errorf("%w: %s", err, tailOf(r.log))
	}
	if err := n.stopAll(n.all); err != nil {
		return err
	}
	n.inLog(n.logFrom(0))
	return n.inVerbs(ctx, dsn)
}

// inLog compares the alert in the log with the one that was posted, which nobody cleans.
func (n *namedRun) inLog(log string) {
	n.unaltered("the log", log)
	var posted map[string]any
	for _, body := range n.hook.bodies {
		if err := json.Unmarshal([]byte(body), &posted); err == nil && posted["service"] == n.words[0] {
			break
		}
	}
	for line := range strings.Lines(log) {
		var entry struct{ Alert map[string]any }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Alert["service"] != n.words[0] {
			continue
		}
		for _, field := range []string{"service", "exchange", "routing_key", "code", "text", "command", "resend"} {
			n.Breaches.Equal("the alert's "+field+" in the log", entry.Alert[field], posted[field])
		}
		n.Breaches.Equal("the alert's key in the log", entry.Alert["key"], n.words[3])
		n.Breaches.Equal("the alert's id in the log", entry.Alert["id"], n.id)
		return
	}
	n.Breaches.Add("the log has no alert: %.300s", log)
}

// inVerbs looks at what operators see.
func (n *namedRun) inVerbs(ctx context.Context, dsn string) error {
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"messages", "list"}, n.words[:]},
		{[]string{"messages", "show", n.id}, n.words[:]},
		{[]string{"messages", "groups", "--service", n.words[0]}, n.words[:]},
		{[]string{"stats"}, n.words[:1]},
		{[]string{"messages", "replay", "--service", n.words[0], "--exchange", n.words[1]}, []string{
			"--exchange " + n.words[1] + " --service " + n.words[0],
		}},
		{[]string{"messages", "replay", n.id, "--yes"}, nil},
	} {
		status, out, err := n.try(ctx, time.Minute, nil, append(tc.args, "--store", dsn)...)
		if err != nil {
			return err
		}
		n.Breaches.Check(status == 0, "%v: exit status %d: %.300s", tc.args, status, out)
		for _, want := range tc.want {
			n.Breaches.Check(strings.Contains(out, want), "%v has altered %q: %.400s", tc.args, want, out)
		}
		n.unaltered(fmt.Sprint(tc.args), strings.ReplaceAll(out, ":xxxxx@", ""))
	}
	return os.Remove(n.all[0].log)
}

// unaltered fails where a text has something hidden outside of a URL, or a secret inside of one.
func (n *namedRun) unaltered(where, text string) {
	n.Breaches.Check(!strings.Contains(text, "xxxxx"), "%s has something hidden: %.400s", where, text)
	for _, secret := range append(n.words[:], url.QueryEscape(n.words[1])) {
		n.Breaches.Check(!strings.Contains(text, ":"+secret+"@"), "%s has the secret %s in a URL", where, secret)
	}
	n.Breaches.Check(!strings.Contains(text, n.hook.url), "%s has the webhook's URL", where)
	n.searched++
}
