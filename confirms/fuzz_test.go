package confirms_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/confirms"
)

// FuzzURLSecrets: no error of ParseURL shows the password, whatever is wrong with the URL
// and wherever in it. FuzzParseURL varies the password alone.
func FuzzURLSecrets(f *testing.F) {
	const canary = "CANARY"
	for _, s := range [][4]string{
		{"amqp", "user", "x", "host:5672/v"},
		{"amqps", "", "@", "/"},
		{"http", "user", "", "h1,h2:1/%zz"},
		{"amqp", "us:er", "%", "[::1/v?a=b#c"},
		{"", "\x00", "/", "\xff"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, scheme, user, password, rest string) {
		_, err := confirms.ParseURL(scheme + "://" + user + ":" + canary + password + "@" + rest)
		if err == nil {
			return
		}
		// A name that holds the canary is the caller's own doing.
		if strings.Contains(err.Error(), canary) && !strings.Contains(scheme+user+rest, "CAN") {
			t.Errorf("the error shows the password: %v", err)
		}
	})
}

// FuzzURLParts: user, password and virtual host that were percent-encoded come out as they
// went in.
func FuzzURLParts(f *testing.F) {
	f.Add("user", "p#a%s/s?w@d^", "a/b")
	f.Add("\x00", "\xff", "%2f")
	f.Add("u:v", "", "//")
	f.Fuzz(func(t *testing.T, user, password, vhost string) {
		// An @ is escaped too: the last one in a URL ends the password, for those who forget.
		path := strings.ReplaceAll(url.PathEscape(vhost), "@", "%40")
		u := url.URL{
			Scheme: "amqp", User: url.UserPassword(user, password), Host: "host:1",
			Path: "/" + vhost, RawPath: "/" + path,
		}
		cfg, err := confirms.ParseURL(u.String())
		if err != nil {
			t.Fatalf("%q %q %q: %v", user, password, vhost, err)
		}
		gotUser, gotPassword, err := cfg.Credentials(t.Context())
		must(t, err)
		if gotUser != user || gotPassword != password {
			t.Errorf("got user %q and password %q, want %q and %q", gotUser, gotPassword, user, password)
		}
		if want := vhost; cfg.VHost != want && want != "" && want != "/" {
			t.Errorf("got virtual host %q, want %q", cfg.VHost, want)
		}
	})
}
