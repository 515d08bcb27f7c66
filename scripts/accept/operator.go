package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	operatorRows = 40
	operatorWait = 100 * time.Second // for the symptom, and for the table to be empty after the repair
	linesAMinute = 10                // equal ones
)

// operatorCheck drives real troubles and does what the product says, as a person would who knows
// nothing else.
func operatorCheck() check {
	return check{
		name: "operator",
		about: "missing binding and exchange, wrong virtual host, password, rights and service, a full queue, two " +
			"daemons, a node down: the cause is named in words, few lines, and every printed command runs and helps",
		stores: "mysql",
		run: inWorld(worldOptions{privateBroker: true}, func(ctx context.Context, w *world) (figures, error) {
			o := &operator{world: w, figs: figures{}}
			all := o.troubles()
			w.Rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, t := range all {
				if err := o.begin(ctx, t); err != nil {
					return o.figs, fmt.Errorf("%s: %w", t.name, err)
				}
			}
			for _, t := range all {
				if err := o.through(ctx, t); err != nil {
					return o.figs, fmt.Errorf("%s: %w", t.name, err)
				}
			}
			if err := o.nodeDown(ctx); err != nil {
				return o.figs, err
			}
			o.figs["troubles"], o.figs["commands"] = len(all)+1, o.commands
			w.Breaches.AtLeast("commands that were pasted", int64(o.commands), int64(len(all)))
			return o.figs, nil
		}),
	}
}

type operator struct {
	*world
	commands int
	figs     figures
}

// begin makes the trouble, stores its messages and starts its daemons.
func (o *operator) begin(ctx context.Context, t *trouble) error {
	t.vhost, t.settings = "t-"+t.name, map[string]any{
		"services": []string{"shop"}, "http": "", "interval": "100ms", "log-format": "json", "alert-window": "1s",
		"max-attempts": 3, "base-delay": "200ms", "max-delay": "10m", "oldest-ready": "5s", "environment": "test",
	}
	if err := o.node.AddVHost(t.vhost); err != nil {
		return err
	}
	var err error
	if t.broker, err = o.clientOf(t.vhost); err != nil {
		return err
	}
	if t.dsn, err = o.newDatabase(ctx, worldOptions{}); err != nil {
		return err
	}
	if t.db, err = openTable(o.Store, t.dsn); err != nil {
		return err
	}
	o.later(t.db.db.Close)
	t.settings["store"], t.settings["amqp"] = t.dsn, o.node.URLFor("guest", "guest", t.vhost)
	t.settings["operator-config"] = filepath.Join(o.Dir, t.name+"-operator.yaml")
	if err := writeSettings(t.settings["operator-config"].(string), map[string]any{"store": t.dsn}); err != nil {
		return err
	}
	if err := o.transmsg(ctx, "migrate", "up", "--store", t.dsn); err != nil {
		return err
	}
	if err := t.make(t); err != nil {
		return err
	}
	if err := o.publishRows(ctx, t); err != nil {
		return err
	}
	return o.startDaemon(t)
}

// publishRows stores messages with ids in their keys, for a broker that is not there yet.
func (o *operator) publishRows(ctx context.Context, t *trouble) error {
	var in strings.Builder
	for i := range operatorRows {
		line, err := json.Marshal(map[string]any{
			"exchange": t.exchange, "routing_key": fmt.Sprintf("order.%d", o.Rand.IntN(1000)), "body": "x",
			"key": fmt.Sprintf("order-%d", i),
		})
		if err != nil {
			return err
		}
		in.Write(append(line, '\n'))
	}
	cmd := exec.CommandContext(ctx, o.binary, "publish", "--jsonl", "-", "--store", t.dsn, "--amqp", nowhere,
		"--service", "shop", "--connect-timeout", "0s")
	cmd.Dir, cmd.Env, cmd.Stdin = o.Dir, plainEnv(), strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("publish: %w: %s", err, out)
	}
	n, err := t.db.count(ctx, "1=1")
	if n != operatorRows {
		err = errors.Join(err, fmt.Errorf("%d rows are stored, want %d", n, operatorRows))
	}
	return err
}

func (o *operator) startDaemon(t *trouble) error {
	t.starts++
	file := filepath.Join(o.Dir, fmt.Sprintf("%s-%d.yaml", t.name, t.starts))
	if err := writeSettings(file, t.settings); err != nil {
		return err
	}
	r, err := o.bareReplica(o.binary, fmt.Sprintf("%s-%d", t.name, t.starts), "--config", file)
	t.daemons = append(t.daemons, r)
	return err
}

// writeSettings writes JSON, which is YAML.
func writeSettings(path string, settings map[string]any) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// through waits for the words, runs what is printed, repairs, and pastes what sends again.
func (o *operator) through(ctx context.Context, t *trouble) error {
	if err := until(ctx, operatorWait, "the cause is named", func(context.Context) (bool, error) {
		return t.words.MatchString(t.log()) && (!t.alerts || strings.Contains(t.log(), `"resend":`)), nil
	}); err != nil {
		o.Breaches.Add("%s: the log does not name the cause (%s): %v: %s", t.name, t.words, err,
			tailOf(t.daemons[0].log))
		return o.end(t)
	}
	for _, line := range t.commands() {
		o.paste(ctx, t, line) // before the repair: it must run, and does no harm without --yes
	}
	if err := t.repair(t); err != nil {
		return err
	}
	again := time.Now()
	err := until(ctx, operatorWait, "the table is empty", func(ctx context.Context) (bool, error) {
		if empty, err := t.db.empty(ctx); empty || err != nil {
			return empty, err
		}
		if time.Since(again) > 2*time.Second { // what was claimed at that moment is met the next time
			again = time.Now()
			o.resend(ctx, t)
		}
		return false, nil
	})
	if err != nil {
		stuck, dbErr := t.db.strings(ctx, "SELECT CONCAT(status, ' ', attempts, ' ', last_code, ' ', last_error) "+
			"FROM trans_message LIMIT 3")
		o.Breaches.Add("%s: repaired, and the suggested commands pasted: %v: %q (%v)", t.name, err, stuck, dbErr)
	}
	return o.end(t)
}

// resend pastes what the last alert says, and then what that prints.
func (o *operator) resend(ctx context.Context, t *trouble) {
	for _, line := range t.commands() {
		if !strings.Contains(line, " replay") && !strings.Contains(line, " retry") {
			continue
		}
		out := o.paste(ctx, t, line)
		if _, confirmed, ok := strings.Cut(out, "\nNothing was changed. To "); ok {
			_, command, _ := strings.Cut(confirmed, ":\n")
			o.paste(ctx, t, strings.TrimSpace(command))
		}
	}
}

// paste runs a line in a shell that knows the binary and nothing else.
func (o *operator) paste(ctx context.Context, t *trouble, line string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	o.commands++
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = o.Dir
	cmd.Env = []string{"PATH=" + filepath.Dir(o.binary) + ":/usr/bin:/bin", "HOME=" + o.Dir}
	out, err := cmd.CombinedOutput()
	o.Breaches.Check(err == nil, "%s: the printed command %q does not run: %v: %.300s", t.name, line, err, out)
	return string(out)
}

// end stops the daemons and counts their lines.
func (o *operator) end(t *trouble) error {
	err := o.stopThose(t)
	for _, d := range t.daemons {
		text, readErr := os.ReadFile(d.log)
		err = errors.Join(err, readErr)
		for line, n := range crowded(string(text)) {
			o.Breaches.Add("%s: %d equal lines within a minute, want at most %d: %.300s", t.name, n, linesAMinute, line)
		}
	}
	return err
}

// stopThose ends the daemons that run. One that was stopped for a repair has ended before.
func (o *operator) stopThose(t *trouble) error {
	for _, d := range t.daemons {
		if !d.Running() {
			o.Breaches.Check(d.ExitCode() == 0, "%s ended with %d: %s", d.instance, d.ExitCode(), tailOf(d.log))
			continue
		}
		if err := o.stopAll([]replica{d}); err != nil {
			return err
		}
	}
	return nil
}

var digits = regexp.MustCompile(`[0-9]+`)

// crowded returns the kinds of lines of which more than allowed came within a minute: lines are
// equal when level, message, cause and error are, but for numbers.
func crowded(log string) map[string]int {
	at, over := map[string][]time.Time{}, map[string]int{}
	for text := range strings.Lines(log) {
		var l struct {
			Time                   time.Time
			Level, Msg, Code, Kind string
			Error                  string
			Alert                  struct{ Kind, Code string }
		}
		if json.Unmarshal([]byte(text), &l) != nil || l.Level == "DEBUG" {
			continue
		}
		key := digits.ReplaceAllString(strings.Join([]string{l.Level, l.Msg, l.Code, l.Alert.Kind, l.Error}, " "), "N")
		list := append(at[key], l.Time)
		list = slices.DeleteFunc(list, func(t time.Time) bool { return l.Time.Sub(t) > time.Minute })
		if at[key] = list; len(list) > linesAMinute {
			over[key] = max(over[key], len(list))
		}
	}
	return over
}
