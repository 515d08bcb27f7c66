package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// What YAML reads as something else than the text that stands there is refused where text
// belongs, and taken where a number or a yes-or-no does.
func TestSettingsFileTypes(t *testing.T) {
	t.Parallel()
	const text = "must be text: put it in quotes"
	for _, tc := range []struct {
		line, refused string // part of the error; "" is taken
		flag          string
		want          []string
	}{
		{line: "amqp-password: 0123", refused: "key amqp-password of FILE " + text},
		{line: "amqp-password: 1e3", refused: text},
		{line: "amqp-password: true", refused: text},
		{line: "amqp-password: 2026-01-31", refused: text},
		{line: "instance: .inf", refused: text},
		{line: "services: 12", refused: text},
		{line: "alert-url: 5", refused: text},
		{line: "services: [a, 0123]", refused: "must be a list of text: put element 2 in quotes"},
		{line: "services: [a, ~]", refused: "put element 2 in quotes"},
		{line: "services: [[a]]", refused: "put element 1 in quotes"},
		{line: "services: []", refused: "has no value"},
		{line: "instance: [a]", refused: "must be one value, not a list"},
		{line: "batch: [1, 2]", refused: "must be one value, not a list"},
		{line: "---\nbatch: 7\n---\nrate: 1", refused: "yaml: there is more than one document"},
		{line: "---\nbatch: 7\n...", flag: "batch", want: []string{"7"}},
		{line: "instance: {}", refused: "must be a value, not a table"},
		{line: "instance:", refused: "has no value"},
		{line: "alert-url: [logger://, 'a b']", refused: "must be a list of URLs: element 2 is 2 words"},
		{line: "alert-url: [logger://, ' ']", refused: "element 2 is 0 words"},
		{line: "amqp-password: '0123'", flag: "amqp-password", want: []string{"0123"}},
		{line: "services: ['a,b', 'c\"d', \"e\\nf\"]", flag: "services", want: []string{"a,b", `c"d`, "e\nf"}},
		{line: "services: a", flag: "services", want: []string{"a"}},
		{line: "alert-url: ['a,b://', c://]", flag: "alert-url", want: []string{"a,b:// c://"}},
		{line: "batch: 0x10", flag: "batch", want: []string{"16"}},
		{line: "rate: 1e3", flag: "rate", want: []string{"1000"}},
		{line: "lock-pause: true", flag: "lock-pause", want: []string{"true"}},
	} {
		path := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(path, []byte(tc.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd, err := settingsOf(t, path)
		if tc.refused != "" {
			want := strings.ReplaceAll(tc.refused, "FILE", path)
			if checkSettings(t, cmd, err, path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", tc.line, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.line, err)
			continue
		}
		got := []string{cmd.Flags().Lookup(tc.flag).Value.String()}
		if list, ok := cmd.Flags().Lookup(tc.flag).Value.(pflag.SliceValue); ok {
			got = list.GetSlice()
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.line, got, tc.want)
		}
	}
}

// An empty file of a secret is refused: without the lock, or on the default database, the
// daemon would do something else than it was asked for.
func TestEmptySecretFilesAreRefused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	publish := []string{"publish", "--routing-key", "q", "--body", "x"}
	for flag, args := range map[string][]string{
		"redis-file": {"compensator", "--store", migrated(t), "--http", ""},
		"store-file": publish,
		"amqp-file":  append(slices.Clone(publish), "--store", migrated(t)),
	} {
		code, _, stderr := runIn(t, append(args, "--"+flag, empty)...)
		if want := "--" + flag + ": " + empty + " is empty"; code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("got %d, %q, want %q", code, stderr, want)
		}
	}
}

// A secret is hidden also as it stands in the quotes of an error, of a log line and of JSON,
// and one that is part of another does not uncover the rest of that.
func TestC28_RedactorHidesQuotedSecrets(t *testing.T) {
	t.Parallel()
	const secret = "p\"w\\x<\u00e9\U0001F600\x01\u2028z"
	r := &redactor{out: io.Discard}
	r.add("p\"w\\") // another secret, the begin of this one
	r.add(secret)
	html, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		secret, strconv.Quote(secret), strconv.QuoteToASCII(secret), string(html), jsonPlain(secret),
		strconv.Quote(fmt.Sprintf("dial %q", secret)), jsonPlain(fmt.Sprintf("dial %q", secret)),
	} {
		if got := r.clean(text); strings.ContainsAny(got, "pwz\u00e9") {
			t.Errorf("%q came out as %q", text, got)
		}
	}
}
