package confirms_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
)

func TestC31_ParseURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct{ addr, user, password, vhost string }{
		"amqp://":                              {},
		"amqp://h":                             {"h:5672", "guest", "guest", "/"},
		"amqp://h/":                            {"h:5672", "guest", "guest", "/"},
		"amqp://h//":                           {"h:5672", "guest", "guest", "/"},
		"amqp://h/%2f":                         {"h:5672", "guest", "guest", "/"},
		"amqp://h/a/b":                         {"h:5672", "guest", "guest", "a/b"},
		"amqp://h/a%2Fb":                       {"h:5672", "guest", "guest", "a/b"},
		"amqp://u@h:1":                         {"h:1", "u", "", "/"},
		"amqps://u:p@h/v":                      {"h:5671", "u", "p", "v"},
		"amqp://u:p@ss@h/v":                    {"h:5672", "u", "p@ss", "v"},
		"amqp://u:p@[::1]:7/v":                 {"[::1]:7", "u", "p", "v"},
		"amqp://u:p%23a%25s%2Fs%3Fw%40d%5E@h/": {"h:5672", "u", "p#a%s/s?w@d^", "/"},
	} {
		cfg, err := confirms.ParseURL(url)
		if want.addr == "" {
			if err == nil {
				t.Errorf("%s: parsed", url)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		user, password, err := cfg.Credentials(t.Context())
		must(t, err)
		if cfg.Addrs[0] != want.addr || user != want.user || password != want.password || cfg.VHost != want.vhost {
			t.Errorf("%s: got %v %s %s %s, want %+v", url, cfg.Addrs, user, password, cfg.VHost, want)
		}
		if tls := cfg.TLS != nil; tls != strings.HasPrefix(url, "amqps") {
			t.Errorf("%s: TLS %t", url, tls)
		}
	}
}

func TestC28_ParseErrorsNameThePartAndNoSecret(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"amqp://user:CANARY%zz@h/":        "user name or password",
		"amqp://user:CANARY#x@h/":         "user name or password",
		"amqp://user:CANARY/x@h/":         "user name or password",
		"amqp://user:CANARY?x@h/":         "user name or password",
		"amqp://user:CANARY^x@h/":         "user name or password",
		"amqp://user:CANARY[x@h/":         "user name or password",
		"amqp://user:CANARY@h/%zz":        "virtual host",
		"amqp://user:CANARY@h/v?a=CANARY": "virtual host",
		"amqp://user:CANARY@h:port/v":     "host:port",
		"amqp://user:CANARY@/v":           "host:port",
		"amqp://user:CANARY@h1,h2:1/v":    "host:port",
		"amqp://user:CANARY\x7f@h/v":      "host:port",
		"http://user:CANARY@h/v":          "amqp://",
		"user:CANARY@h":                   "amqp://",
	} {
		_, err := confirms.ParseURL(url)
		if err == nil {
			t.Errorf("%q: parsed", url)
			continue
		}
		if text := err.Error(); strings.Contains(text, "CANARY") || !strings.Contains(text, want) {
			t.Errorf("%q: got %q, want it to name %q and no secret", url, text, want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("p#a%s/s?w@d^")
	f.Add("%zz")
	f.Fuzz(func(t *testing.T, password string) {
		const canary = "CANARY"
		_, err := confirms.ParseURL("amqp://user:" + canary + password + "@host:5672/v")
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("the error shows the password: %v", err)
		}
	})
}

func TestConfigIsRefusedNotClamped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*confirms.Config)
		want string
	}{
		"no address": {func(c *confirms.Config) { c.Addrs = nil }, "Addrs"},
		"a URL":      {func(c *confirms.Config) { c.Addrs = []string{"amqp://u:CANARY@h/"} }, "Addrs[0]"},
		"port above all": {func(c *confirms.Config) {
			c.Addrs = []string{"h:5672", "h:65536"}
		}, "Addrs[1]: port 65536 must be from 1 to 65535"},
		"port 0":        {func(c *confirms.Config) { c.Addrs = []string{"h:0"} }, "Addrs[0]: port 0 must be"},
		"negative port": {func(c *confirms.Config) { c.Addrs = []string{"h:-1"} }, "Addrs[0]: port -1 must be"},
		"long virtual host": {func(c *confirms.Config) {
			c.VHost = strings.Repeat("v", 256)
		}, "VHost of 256 bytes must be at most 255"},
		"virtual host in Latin-1": {func(c *confirms.Config) { c.VHost = "\xff" }, "VHost of 1 bytes"},
		"no credentials":          {func(c *confirms.Config) { c.Credentials = nil }, "Credentials"},
		"channels":                {func(c *confirms.Config) { c.Channels = 17 }, "Channels 17 must be from 1 to 16"},
		"window":                  {func(c *confirms.Config) { c.Window = -1 }, "Window -1"},
		"pending": {func(c *confirms.Config) {
			c.Window, c.MaxPending = 100, 99
		}, "MaxPending 99 must be from 100"},
		"bytes": {func(c *confirms.Config) {
			c.WindowBytes, c.MaxPendingBytes = 100, 99
		}, "MaxPendingBytes 99 must be from 100"},
		"timeout": {func(c *confirms.Config) { c.ConfirmTimeout = time.Millisecond }, "ConfirmTimeout 1ms"},
	} {
		cfg := confirms.Config{
			Addrs:       []string{"127.0.0.1:1"},
			Credentials: func(context.Context) (string, string, error) { return "u", "p", nil },
		}
		c.edit(&cfg)
		s, err := confirms.Open(cfg)
		if err == nil {
			_ = s.Close(t.Context())
			t.Errorf("%s: opened", name)
			continue
		}
		if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "CANARY") {
			t.Errorf("%s: got %q, want %q", name, text, c.want)
		}
	}
}
