package main

import (
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settingsOf loads the daemon's settings from a file and an environment.
func settingsOf(t *testing.T, file string, environ ...string) (*cobra.Command, error) {
	t.Helper()
	a := &app{
		stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, secrets: &redactor{out: io.Discard},
		environ: environ,
	}
	cmd, _, err := a.root().Find([]string{"compensator"})
	if err != nil {
		t.Fatal(err)
	}
	a.configFile = file // the flags have just set it to its default
	if err := cmd.ParseFlags(nil); err != nil {
		t.Fatal(err)
	}
	return cmd, a.loadSettings(cmd)
}

// checkSettings checks that an error is one of usage that names one of names, and that
// what was taken is what the flag itself takes.
func checkSettings(t *testing.T, cmd *cobra.Command, err error, names ...string) {
	t.Helper()
	if err != nil {
		var exit exitError
		if !errors.As(err, &exit) || exit.code != exitUsage {
			t.Fatalf("got %v, want a mistake of usage", err)
		}
		for _, name := range names {
			if strings.Contains(err.Error(), name) {
				return
			}
		}
		t.Fatalf("got %v, want it to name one of %q", err, names)
	}
	fresh, _ := settingsOf(t, "")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); list || !f.Changed || f.Value.Type() == urlListType {
			return
		}
		again := fresh.Flags().Lookup(f.Name)
		if err := again.Value.Set(f.Value.String()); err != nil || again.Value.String() != f.Value.String() {
			t.Errorf("%s has the value %q, which the flag does not take: %v", f.Name, f.Value, err)
		}
	})
}

// FuzzSettingsFile: no file makes the settings panic, what is wrong is told by the file's
// or the key's name, and what is taken the flag would take.
func FuzzSettingsFile(f *testing.F) {
	for _, text := range []string{
		"", "batch: 7\nrate: 1e3\nlock-pause: true\ninterval: 1s\nowner: a\nservices: [a, b]\nalert-url: [a, b]\n",
		"amqp: amqp://h/\nstore-file: /x\n", "batch: 0x10\n", "batch: 1.5\n", "interval: 5\n", "instance: {a: b}\n",
		"services: [[a], null]\n", "batch: ~\n", "batch: 1\nbatch: 2\n", "a: &a [*a]\n", "- a\n", "? [a]\n: b\n",
		"instance: !!binary aGVsbG8=\n", "instance: \"\\u0000\"\n",
		"lock-pause: yes\n", "---\nbatch: 1\n---\nrate: 1\n",
		"instance: |\n  a\n  b\n", "<<: {batch: 7}\n", "\ufeffbatch: 7\n", "batch: 7\r\nrate: 1\r\n",
		"%YAML 1.1\n---\nbatch: 7\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd, err := settingsOf(t, path)
		checkSettings(t, cmd, err, path)
	})
}

// FuzzSettingsEnv is the same for one variable of the environment.
func FuzzSettingsEnv(f *testing.F) {
	for _, kv := range [][2]string{
		{"BATCH", "7"},
		{"BATCH", "0x7_0"},
		{"RATE", "NaN"},
		{"INTERVAL", "-1s"},
		{"SERVICES", "a,\"b"},
		{"ALERT_URL", "a b"},
		{"LOCK_PAUSE", "T"},
		{"CONFIG", "/nonexistent"},
		{"TEST_X", "x"},
		{"", ""},
		{"BATCH=1", "2"},
		{"batch", "x"},
		{"LOCK-PAUSE", ""},
		{"INSTANCE", "\x00\xff"},
	} {
		f.Add(kv[0], kv[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		variable := envPrefix + name
		cmd, err := settingsOf(t, "", variable+"="+value)
		key, _, _ := strings.Cut(variable, "=")
		shown := envName(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, envPrefix), "_", "-")))
		checkSettings(t, cmd, err, shown, "--config")
	})
}

// FuzzRedactor: a password that the command line was given in a URL or DSN, well formed or
// not, is in no text that goes through the redactor, as it is or percent-encoded.
func FuzzRedactor(f *testing.F) {
	f.Add(uint8(0), "p@ss-w0rd", "dial ")
	f.Add(uint8(1), "p%40ss/w0rd", "")
	f.Add(uint8(2), "p'ss\\w0rd", "x")
	f.Add(uint8(3), "xxxxxxxx", "\n")
	f.Add(uint8(4), "päss", "%")
	forms := []func(string) string{
		func(p string) string { return "amqp://app:" + p + "@127.0.0.1:5672/v" },
		func(p string) string { return "mysql://" + url.UserPassword("app", p).String() + "@db/shop" },
		func(p string) string { return "app:" + p + "@tcp(db:3306)/shop" },
		func(p string) string { return "redis://:" + p + "@h/0" },
		func(p string) string { return "host=db user=app password=" + p + " dbname=x" },
	}
	f.Fuzz(func(t *testing.T, form uint8, password, around string) {
		form %= uint8(len(forms))
		typed := form == 4 && strings.ContainsAny(password, " ?&;")
		if len(password) < minSecret || password == "guest" || strings.Contains("xxxxx", password) || typed ||
			strings.TrimSpace(password) != password {
			return
		}
		dsn := forms[form](password)
		r := &redactor{out: io.Discard}
		r.addURL(dsn)
		const mark = "\x00mark\x00" // so that no text arises from its neighbours
		for _, text := range []string{password, url.QueryEscape(password), url.PathEscape(password)} {
			got := r.clean(around + mark + text + mark + dsn)
			if strings.Contains(got, mark+text+mark) {
				t.Errorf("%q: %q is in %q", dsn, text, got)
			}
		}
	})
}
