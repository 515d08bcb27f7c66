package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

// wrongCase is one command that cannot work.
type wrongCase struct {
	name string
	args []string
	env  []string
	// ends: by itself, with an error; otherwise it goes on and is stopped.
	ends bool
}

// wrong runs every verb with everything that can be wrong with what it is given.
func (s *secrets) wrong(ctx context.Context) error {
	var cases []wrongCase
	for _, group := range []func() ([]wrongCase, error){s.wrongDatabase, s.wrongBroker, s.wrongAlerts, s.wrongFiles} {
		some, err := group()
		if err != nil {
			return err
		}
		cases = append(cases, some...)
	}
	s.Rand.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	s.control(cases)
	for _, c := range cases {
		limit := 2 * time.Second
		if c.ends {
			limit = time.Minute
		}
		status, out, err := s.try(ctx, limit, c.env, c.args...)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if c.ends {
			s.Breaches.Check(status > 0 && out != "", "%s by %s: exit status %d and %.100q, want an error",
				c.name, c.args[0], status, out)
		}
	}
	s.figs["wrong_commands"] = len(cases)
	return nil
}

// control proves that the search finds what is there.
func (s *secrets) control(cases []wrongCase) {
	probe := &secrets{world: &world{env: &env{Breaches: &breaches{}}}, canaries: s.canaries}
	for _, c := range cases {
		probe.search("the command line", fmt.Sprint(c.args, c.env))
	}
	s.Breaches.AtLeast("canaries found where they were put", int64(len(probe.Breaches.All())), int64(len(cases)*3/4))
}

// wrongDatabase gives every verb that needs a database one that does not work.
func (s *secrets) wrongDatabase() ([]wrongCase, error) {
	const id = "01890000-0000-7000-8000-000000000001"
	verbs := [][]string{
		{"compensator", "--http", "", "--log-level", "debug"},
		{"publish", "--routing-key", "q", "--body", "x"},
		{"migrate", "up"},
		{"migrate", "status"},
		{"stats"},
		{"messages", "list"},
		{"messages", "show", id},
		{"messages", "groups"},
		{"messages", "replay", id, "--yes"},
		{"messages", "discard", id, "--yes"},
		{"messages", "edit", id, "--body", "x", "--yes"},
		{"messages", "export", "--all"},
	}
	hosts := map[string]string{
		"database down": "127.0.0.1:1/shop", "unknown host": "db.invalid/shop", "bad port": "127.0.0.1:port/shop",
		"bad parameter": "127.0.0.1:1/shop?timeout=x&sslmode=x&connect_timeout=x", "bad escape": "127.0.0.1:1/%zz",
		"refused": map[string]string{"mysql": "127.0.0.1:3306/shop", "postgres": "127.0.0.1:5432/shop"}[s.Store],
	}
	var cases []wrongCase
	for i, name := range slices.Sorted(maps.Keys(hosts)) {
		for j, verb := range verbs {
			dsn := s.databaseURL(name, hosts[name])
			c := wrongCase{name: name, ends: true, args: append(append([]string{}, verb...), "--store", dsn)}
			switch (i + j) % 3 { // given in each way
			case 1:
				c.args, c.env = verb, []string{"TRANSMSG_STORE=" + dsn}
			case 2:
				path, err := s.file(fmt.Sprintf("store-%d-%d", i, j), dsn)
				if err != nil {
					return nil, err
				}
				c.args = append(append([]string{}, verb...), "--store-file", path)
			}
			cases = append(cases, c)
		}
	}
	for _, dsn := range []string{
		"app:" + s.canary("a driver's DSN") + "@tcp(127.0.0.1:1)/shop",
		"app:" + s.canary("a DSN without end") + "@tcp(127",
		"host=127.0.0.1 port=1 password=" + s.canary("a DSN of words"),
		"oracle://app:" + s.canary("an unknown kind") + "@h/x",
		"mysql:/app:" + s.canary("a DSN with one slash") + "@h/x",
		s.canary("a password alone"),
	} {
		cases = append(cases, wrongCase{name: "no DSN", ends: true, args: []string{"stats", "--store", dsn}})
	}
	return cases, nil
}

// wrongBroker gives those that talk to the broker and to Redis what does not work.
func (s *secrets) wrongBroker() ([]wrongCase, error) {
	daemon := func(args ...string) []string {
		return append([]string{"compensator", "--http", "", "--log-level", "debug", "--store", s.dsn}, args...)
	}
	publish := func(args ...string) []string {
		return append([]string{
			"publish", "--routing-key", "q", "--body", "x", "--connect-timeout", "1s", "--log-level", "debug",
			"--store", s.dsn,
		}, args...)
	}
	file, err := s.file("amqp-password", s.canary("a password in a file"))
	if err != nil {
		return nil, err
	}
	addr := s.node.Addr()
	cases := []wrongCase{
		{name: "broker down", args: daemon("--amqp", s.brokerURL("broker down", "127.0.0.1:1/"))},
		{name: "broker refuses", args: daemon("--amqp", s.brokerURL("broker refuses", addr+"/"))},
		{name: "broker down", args: publish("--amqp", s.brokerURL("broker down", "127.0.0.1:1/"))},
		{name: "broker refuses", args: publish("--amqp", s.brokerURL("broker refuses", addr+"/"))},
		{name: "no virtual host", args: publish("--amqp", s.brokerURL("no virtual host", addr+"/none"))},
		{name: "password alone", args: daemon("--amqp-addr", addr, "--amqp-user", "app",
			"--amqp-password", s.canary("a flag"))},
		{name: "password file", args: daemon("--amqp-addr", addr, "--amqp-user", "app", "--amqp-password-file", file)},
		{name: "TLS to a plain port", args: daemon("--amqp", "amqps"+s.brokerURL("TLS", addr+"/")[4:])},
		{name: "in the environment", args: daemon(), env: []string{"TRANSMSG_AMQP=" + s.brokerURL("env", addr+"/")}},
		{name: "redis down", args: daemon("--amqp", s.url, "--redis", s.redisURL("redis down", "127.0.0.1:1/0"))},
		{name: "redis paused", args: daemon("--amqp", s.url, "--lock-pause",
			"--redis", s.redisURL("redis down", "127.0.0.1:1/0"))},
	}
	for _, raw := range []string{
		"amqp://app:%s@127.0.0.1:port/", "amqp://app:%s%%zz@127.0.0.1/", "amqx://app:%s@127.0.0.1/", "app:%s@127.0.0.1",
		"amqp://app:%s@127.0.0.1/\x01",
	} {
		raw = fmt.Sprintf(raw, s.canary("a broker URL that is none"))
		cases = append(cases,
			wrongCase{name: raw[:4], args: daemon("--amqp", raw), ends: true},
			wrongCase{name: raw[:4], args: publish(), env: []string{"TRANSMSG_AMQP=" + raw}, ends: true})
	}
	for _, raw := range []string{
		"redis://app:%s%%zz@h/0", "redis://app:%s@h:port/0", "radis://app:%s@h/0", "redis://app:%s@h/x",
	} {
		raw = fmt.Sprintf(raw, s.canary("a Redis URL that is none"))
		cases = append(cases, wrongCase{name: "redis", args: daemon("--amqp", s.url, "--redis", raw), ends: true})
	}
	return cases, nil
}

// wrongAlerts gives places for alerts that take none.
func (s *secrets) wrongAlerts() ([]wrongCase, error) {
	var cases []wrongCase
	for _, to := range [][]string{
		{"--alert-webhook", "http://127.0.0.1:1/" + s.canary("a webhook")[:10]},
		{"--alert-webhook", "http://app:" + s.canary("a webhook") + "@127.0.0.1:1/"},
		{"--alert-webhook", "ftp://127.0.0.1/" + s.canary("a webhook")},
		{"--alert-webhook", s.canary("a webhook")},
		{"--alert-webhook", "http://127.0.0.1:1/?token=" + s.canary("a webhook") + "%zz"},
		{"--alert-webhook-secret", s.canary("a webhook's key")},
		{"--alert-webhook", "http://127.0.0.1:1/", "--alert-webhook-secret", s.canary("a webhook's key")},
		{"--alert-url", s.shoutrrrURL()},
		{"--alert-url", "gotify://127.0.0.1:1/" + s.canary("a chat token")[:10]},
		{"--alert-url", "generic://127.0.0.1:1/" + s.canary("a chat token")[:10] + "?disabletls=yes"},
		{"--alert-url", "nosuch://" + s.canary("a token") + "@h"},
		{"--alert-url", s.canary("a token")},
		{"--alert-url", "smtp://app:" + s.canary("a mail password") + "@127.0.0.1:1/?from=a@b.invalid&to=c@d.invalid"},
	} {
		cases = append(cases, wrongCase{name: "alert test", ends: true, args: append([]string{"alert", "test"}, to...)})
	}
	return cases, nil
}

// wrongFiles misuses the command line, the settings file and the environment.
func (s *secrets) wrongFiles() ([]wrongCase, error) {
	var cases []wrongCase
	for i, text := range []string{
		"amqp: amqp://app:%s%%zz@h/\nstore: sqlite:x", "store: [mysql://app:%s@h/x, y]", "stoer: mysql://app:%s@h/x",
		"amqp:\n  url: amqp://app:%s@h/", "amqp: amqp://app:%s@h/\n\tbroken", "amqp-password: %q\nrate: many",
	} {
		path, err := s.file(fmt.Sprintf("settings-%d.yaml", i), fmt.Sprintf(text, s.canary("a settings file")))
		if err != nil {
			return nil, err
		}
		cases = append(cases, wrongCase{
			name: "settings file", ends: true, args: []string{"compensator", "--http", "", "--config", path},
			env: []string{"CONTROL=" + s.canaries["a settings file"]},
		})
	}
	folder := s.Dir + "/" + s.canary("a folder")[:10]
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	delete(s.canaries, "a folder") // a path is no secret
	misuse := func() string { return s.brokerURL("misuse", "h/") }
	return append(cases, []wrongCase{
		{name: "an argument", ends: true, args: []string{"compensator", misuse()}},
		{name: "an argument", ends: true, args: []string{"stats", s.databaseURL("misuse", "h/x")}},
		{name: "an unknown flag", ends: true, args: []string{"compensator", "--amqpp=" + misuse()}},
		{name: "an unknown setting", ends: true, args: []string{"stats"}, env: []string{"TRANSMSG_STOER=" + misuse()}},
		{name: "a file for a URL", ends: true, args: []string{"stats", "--store-file", misuse()}},
		{name: "two of one", ends: true, args: []string{"stats", "--store", misuse(), "--store-file", folder}},
		{name: "a folder for a file", ends: true, args: []string{"stats", "--store-file", folder}},
		{name: "no verb", ends: true, args: []string{misuse()}},
		{
			name: "help", args: []string{"compensator", "--help"},
			env: []string{"TRANSMSG_AMQP=" + misuse(), "TRANSMSG_STORE=" + misuse()},
		},
	}...), nil
}
