package main

import (
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strconv"
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

// add makes the writer hide s, as it is, percent-encoded, and in the quotes of Go and JSON,
// twice where a quoted text is quoted again. The broker's public default is no secret.
func (r *redactor) add(s string) {
	if len(s) < minSecret || s == "guest" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	forms := []string{s, url.QueryEscape(s), url.PathEscape(s), strings.TrimSpace(s)}
	forms = append(forms, quotedForms(forms)...)
	forms = append(forms, quotedForms(forms)...)
	for _, form := range forms {
		if len(form) >= minSecret && !slices.Contains(r.secrets, form) {
			r.secrets = append(r.secrets, form)
		}
	}
	// The longest first: one that is part of another would leave the rest of that to be read.
	slices.SortStableFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

// quotedForms are texts as they stand between the quotes of an error, a log or JSON.
func quotedForms(texts []string) []string {
	var out []string
	for _, s := range texts {
		json, _ := json.Marshal(s) // no string fails
		for _, quoted := range []string{strconv.Quote(s), strconv.QuoteToASCII(s), string(json), jsonPlain(s)} {
			if form := quoted[1 : len(quoted)-1]; form != s && !slices.Contains(out, form) {
				out = append(out, form)
			}
		}
	}
	return out
}

// jsonPlain is s in JSON as a log writes it, without the escapes for HTML.
func jsonPlain(s string) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // no string fails
	return strings.TrimSuffix(text.String(), "\n")
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
