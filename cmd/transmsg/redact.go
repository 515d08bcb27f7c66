package main

import (
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// redactor is the last line of defence on stderr: the packages below never put a secret
// into an error, and if a driver does all the same, it is replaced here. Safe for
// concurrent use.
type redactor struct {
	out io.Writer

	mu      sync.Mutex
	secrets []string
}

// minSecret is the shortest secret that is looked for: replacing shorter ones would garble
// every text without hiding anything.
const minSecret = 4

// add makes the writer hide s, as it is and percent-encoded. The broker's public default
// is no secret.
func (r *redactor) add(s string) {
	if len(s) < minSecret || s == "guest" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), strings.TrimSpace(s)} {
		if !slices.Contains(r.secrets, form) {
			r.secrets = append(r.secrets, form)
		}
	}
}

// addURL hides the password in a URL or DSN, whether or not it parses.
func (r *redactor) addURL(s string) {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok {
			r.add(password)
		}
	}
	// What stands between the first colon of the user part and the last @, as typed: this
	// also finds the password where the rest does not parse.
	rest := s
	if _, after, ok := strings.Cut(s, "://"); ok {
		rest = after
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if _, password, ok := strings.Cut(rest[:at], ":"); ok {
			r.add(password)
		}
	}
	for _, field := range strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(" ?&;", c) }) {
		if name, value, ok := strings.Cut(field, "="); ok && strings.EqualFold(name, "password") {
			r.add(value)
		}
	}
}

// clean returns s without secrets.
func (r *redactor) clean(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, "xxxxx")
	}
	return s
}

// Write implements io.Writer. Each call is one or more whole lines.
func (r *redactor) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.out, r.clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
