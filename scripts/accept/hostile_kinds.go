package main

import (
	"slices"
	"strings"
)

// settingKind says how a setting is given and what it must refuse.
type settingKind struct {
	args   []string // the verb with all else that it needs
	values []string
	alias  []string // how an error may name the setting besides flag, variable and key
	status []int
}

// nothingAt is an address where nobody listens.
const nothingAt = "127.0.0.1:1"

// settingKinds are all settings. One that takes every text has no values.
func (h *hostile) settingKinds() map[string]settingKind {
	kinds := map[string]settingKind{}
	for _, group := range []func() ([]string, map[string][]string){
		h.timeSettings, h.countSettings, h.wordSettings, h.alertSettings, h.signedSettings, h.httpSettings,
		h.redisSettings, h.redisTLSSettings, h.brokerSettings, h.partSettings, h.brokerTLSSettings, h.storeSettings,
		h.storeTLSSettings, h.publishSettings, h.actorSettings, h.managementSettings, h.managementPartSettings,
		h.topologySettings,
	} {
		args, values := group()
		for name, list := range values {
			kinds[name] = settingKind{args: args, values: list, status: []int{2}}
		}
	}
	for name, alias := range map[string]string{ // the library's names
		"actor": "actor", "table-prefix": "Prefix", "lease": "Lease", "rate": "Rate", "instance": "Instance",
		"services": "Services", "cron": "Cron", "service": "Service", "channels": "Channels", "window": "Window",
		"confirm-timeout": "ConfirmTimeout", "dial-timeout": "DialTimeout", "max-body": "MaxBody",
		"amqp-addr": "Addrs", "amqp-vhost": "VHost", "batch": "BatchRows", "store-file": "--store:",
	} {
		kind := kinds[name]
		kind.alias = []string{alias}
		kinds[name] = kind
	}
	for _, name := range []string{"actor", "http"} { // refused by the store, and by the system
		kind := kinds[name]
		kind.status = []int{1, 2}
		kinds[name] = kind
	}
	return kinds
}

// daemonArgs starts a compensator on the world; flags and values of drop are left out.
func (h *hostile) daemonArgs(drop string, more ...string) []string {
	args := []string{"compensator", "--http=", "--store", h.dsn, "--amqp", h.url}
	if at := slices.Index(args, drop); at >= 0 {
		args = slices.Delete(args, at, at+2)
	}
	return append(args, more...)
}

func (h *hostile) timeSettings() ([]string, map[string][]string) {
	return h.daemonArgs(""), map[string][]string{
		"alert-window": h.durations("999ms", "24h1ns"), "base-delay": h.durations("999us"),
		"confirm-timeout": h.durations("99ms"), "dial-timeout": h.durations("99ms"), "drain-timeout": h.durations("0"),
		"dead-retention": h.durations("59m59s"), "event-retention": h.durations("59m59s"),
		"inbox-retention": h.durations("59m59s", "335h"), "queue-retention": h.durations(),
		"interval": h.durations("9ms", "0s"), "lease": h.durations("0", "1s"),
		"max-age": h.durations(), "min-dead-age": h.durations(),
		"max-delay": h.durations("1ms", "0"), "oldest-ready": h.durations("999ms"), "slow-start": h.durations(),
		"cron": {
			"x", "* * * *", "* * * * * * *", "61 * * * *", "* * * * * \U0001F600", "TZ=UTC * * * * *", "@never",
			"0 0 31 2 *", "99999999999999999999 * * * *", "*/0 * * * *", "-1 * * * *",
		},
	}
}

func (h *hostile) countSettings() ([]string, map[string][]string) {
	return h.daemonArgs(""), map[string][]string{
		"batch": h.integers("0", "5001"), "batch-bytes": h.integers("0"), "channels": h.integers("0", "17"),
		"window": h.integers("0", "10001"), "max-attempts": h.integers("0"),
		"rate":       h.floats("5e-324"),
		"multiplier": h.floats("0.99", "100.1", "Inf", "0"), "jitter": h.floats("1.01", "Inf"),
	}
}

func (h *hostile) wordSettings() ([]string, map[string][]string) {
	return h.daemonArgs(""), map[string][]string{
		"log-format": h.words("", "xml", "JSON"), "log-level": h.words("", "trace", "INFO", "0"),
		"instance": {letters(h.Rand, 65+h.Rand.IntN(500)), strings.Repeat("é", 33)},
		"collect":  {",", "a,a", letters(h.Rand, 256), `a"b`}, "collect-service": {"dead"}, "uncollectable": {"aside"},
		"services": {",", "a,,b", "a,a", letters(h.Rand, 65), `a"b`},
		"table-prefix": {
			"A_", "1_", "a-b", "a;b", "a b", "\u0430_", "\xff", letters(h.Rand, 21), "a`b", `a"b`, "'", "a\nb",
		},
	}
}

func (h *hostile) alertSettings() ([]string, map[string][]string) {
	return h.daemonArgs(""), map[string][]string{
		"alert-webhook":        h.urls("ftp://h/", "http://", "http:///path", "http://h:port/", "//h/"),
		"alert-url":            h.urls("nosuch://h", "slack://", "discord://x"),
		"alert-webhook-file":   h.files("", "\n"),
		"alert-url-file":       h.files("", " \n"),
		"alert-webhook-secret": {letters(h.Rand, 10)},       // without a webhook there is nothing to sign
		"environment":          nil, "operator-config": nil, // texts for people
	}
}

func (h *hostile) signedSettings() ([]string, map[string][]string) {
	return h.daemonArgs("", "--alert-webhook", "http://"+nothingAt+"/"), map[string][]string{
		"alert-webhook-secret-file": h.files("", "\n"),
	}
}

func (h *hostile) httpSettings() ([]string, map[string][]string) {
	return []string{"compensator", "--store", h.dsn, "--amqp", h.url}, map[string][]string{
		"http": {"x", "127.0.0.1", "127.0.0.1:99999", "[::1", ":x", "::", "127.0.0.1:-1", "a:b:c", "\x01:1"},
	}
}

func (h *hostile) redisSettings() ([]string, map[string][]string) {
	return h.daemonArgs("", "--redis", "redis://"+nothingAt+"/0"), map[string][]string{
		"lock-ttl": h.durations("299ms", "10m1s", "0"), "lock-slots": h.integers("0", "65"), "lock-prefix": {""},
		"lock-pause": h.words("", "maybe", "yes", "2"),
		// The connection is plain:
		"redis-tls-cert": {"x", "/"}, "redis-tls-key": {"x", "/"}, "redis-tls-server-name": {"x", "\U0001F600"},
	}
}

func (h *hostile) redisTLSSettings() ([]string, map[string][]string) {
	return h.daemonArgs("", "--redis", "rediss://"+nothingAt+"/0"), map[string][]string{
		"redis-tls-ca": h.files("", "x", "-----BEGIN CERTIFICATE-----\n"),
	}
}

func (h *hostile) brokerSettings() ([]string, map[string][]string) {
	return h.daemonArgs("--amqp"), map[string][]string{
		"amqp":      h.urls("http://h/", "amqp://h:port/", "amqp://h/%zz", "amqp://[::1/", "amqp://", "AMQP:/h"),
		"amqp-file": h.files("", "http://h/", "amqp://h:port/"),
		"amqp-addr": {
			"127.0.0.1", ":5672", "127.0.0.1:", "a:b:c", "amqp://h:1/", "[::1", "127.0.0.1:1,x",
			"127.0.0.1:65536", "h:0",
		},
		"amqp-tls":   h.words("", "maybe", "yes", "2"),
		"redis":      h.urls("redis://h:port/0", "redis://h/x", "http://h/0", "redis://h/%zz"),
		"redis-file": h.files("", "\n"),
	}
}

func (h *hostile) partSettings() ([]string, map[string][]string) {
	return h.daemonArgs("--amqp", "--amqp-addr", nothingAt), map[string][]string{
		"amqp-vhost":         {"", letters(h.Rand, 256+h.Rand.IntN(500)), "\xff"},
		"amqp-password-file": h.files(), "amqp-user": nil, "amqp-password": nil,
	}
}

func (h *hostile) brokerTLSSettings() ([]string, map[string][]string) {
	return h.daemonArgs("--amqp", "--amqp", "amqps://"+nothingAt+"/"), map[string][]string{
		"amqp-tls-ca": h.files("", "x"), "amqp-tls-cert": h.files("", "x"), "amqp-tls-key": h.files("", "x"),
		"amqp-tls-server-name": nil,
	}
}

func (h *hostile) storeSettings() ([]string, map[string][]string) {
	return h.daemonArgs("--store"), map[string][]string{
		"store": h.urls("oracle://h/x", "mysql://", "mysql://h:port/x", "postgres://h/%zz", "postgres://u@h:port/x",
			"app@tcp(127", "host=x port=y", ""),
		"store-file": h.files("", "\n", "x", "oracle://h/x"),
	}
}

func (h *hostile) storeTLSSettings() ([]string, map[string][]string) {
	return h.daemonArgs(""), map[string][]string{
		"store-tls-ca": h.files("", "x"), "store-tls-cert": h.files("", "x"), "store-tls-key": h.files("", "x"),
		"store-tls-server-name": nil,
	}
}

func (h *hostile) publishSettings() ([]string, map[string][]string) {
	args := []string{"publish", "--routing-key", "q", "--body", "x", "--store", h.dsn, "--amqp", h.url}
	return args, map[string][]string{
		"connect-timeout": h.durations(), "max-body": h.integers("0"),
		"service": {"", letters(h.Rand, 65+h.Rand.IntN(500)), "\xff", strings.Repeat("\U0001F600", 17)},
	}
}

func (h *hostile) actorSettings() ([]string, map[string][]string) {
	const nobody = "01890000-0000-7000-8000-000000000001"
	return []string{"messages", "discard", nobody, "--yes", "--store", h.dsn}, map[string][]string{
		"actor": {letters(h.Rand, 65+h.Rand.IntN(500)), "\xff", "a\xc0\x80b", strings.Repeat("é", 33)},
	}
}

func (h *hostile) managementSettings() ([]string, map[string][]string) {
	return []string{"messages", "replay", "--all", "--store", h.dsn}, map[string][]string{
		"management":      h.urls("amqp://u:p@h/", "http://h:1", "http://u:p@", "http://u:p@h:x", "http://u:p@h?x=1"),
		"management-file": h.files("", "\n", "http://h:15672"),
	}
}

func (h *hostile) managementPartSettings() ([]string, map[string][]string) {
	args := []string{"messages", "replay", "--all", "--store", h.dsn, "--management", "https://u:p@" + nothingAt}
	return args, map[string][]string{
		"management-vhost":  {""},
		"management-tls-ca": h.files("", "x"), "management-tls-cert": h.files("", "x"),
		"management-tls-key": h.files("", "x"), "management-tls-server-name": nil,
	}
}

func (h *hostile) topologySettings() ([]string, map[string][]string) {
	return []string{"topology", "print"}, map[string][]string{"topology": h.files("", "\n", "x", "nope: 1\n")}
}
