package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// redactor is the last line of defence: the packages below never put a secret into an error,
// and if a driver does all the same, it is replaced here. A secret may be the name of a
// service or an exchange too, so it is looked for only where secrets are: everywhere in the
// error texts of the libraries that were given it, and else in URLs and DSNs. Names, ids and
// commands stay as they are. Safe for concurrent use.
type redactor struct {
	out io.Writer

	mu      sync.Mutex
	secrets []string    // in every form; hidden in library texts
	placed  [][2]string // texts as they stand in a URL or DSN, and what they become
}

// hidden stands where a secret was.
const hidden = "xxxxx"

// minSecret is the shortest secret that is looked for in library texts: replacing shorter
// ones would garble every text without hiding anything.
const minSecret = 4

// add makes the writer hide s, as it is, percent-encoded, and in the quotes of Go and JSON,
// twice where a quoted text is quoted again. The broker's public default is no secret.
func (r *redactor) add(s string) {
	if s == "" || s == "guest" {
		return
	}
	forms := []string{s, url.QueryEscape(s), url.PathEscape(s), strings.TrimSpace(s)}
	forms = append(forms, quotedForms(forms)...)
	forms = append(forms, quotedForms(forms)...)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, form := range forms {
		if len(form) >= minSecret && !slices.Contains(r.secrets, form) {
			r.secrets = append(r.secrets, form)
		}
		if form != "" {
			r.place(":"+form+"@", ":"+hidden+"@")
			r.place("password="+form, "password="+hidden)
		}
		if strings.Contains(form, "://") || strings.Contains(form, "%3A%2F%2F") {
			r.place(form, hidden)
		}
	}
	// The longest first: one that is part of another would leave the rest of that to be read.
	slices.SortStableFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	slices.SortStableFunc(r.placed, func(a, b [2]string) int { return len(b[0]) - len(a[0]) })
}

func (r *redactor) place(text, instead string) {
	if p := [2]string{text, instead}; !slices.Contains(r.placed, p) {
		r.placed = append(r.placed, p)
	}
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

// clean returns the text of a library that was given secrets, without them.
func (r *redactor) clean(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, hidden)
	}
	return s
}

// inURLs returns a text of ours without the secrets in the URLs and DSNs in it.
func (r *redactor) inURLs(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.placed {
		s = strings.ReplaceAll(s, p[0], p[1])
	}
	return s
}

// errorText is an error's text without secrets: what libraries wrote is cleaned, our own words
// around it are not.
func (r *redactor) errorText(err error) string {
	text := err.Error()
	for _, part := range libraryTexts(err) {
		text = strings.ReplaceAll(text, part, r.clean(part))
	}
	return r.inURLs(text)
}

// cleaned is err with a text without secrets.
func (r *redactor) cleaned(err error) error { return cleanError{err, r.errorText(err)} }

type cleanError struct {
	error
	text string
}

// Error implements error.
func (e cleanError) Error() string { return e.text }

// Unwrap returns the error as it was.
func (e cleanError) Unwrap() error { return e.error }

// libraryTexts are the texts of those errors in the tree that are of a library's own types.
func libraryTexts(err error) []string {
	switch {
	case err == nil:
		return nil
	case ofLibrary(err):
		return []string{err.Error()}
	}
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case interface{ Unwrap() error }:
		return libraryTexts(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []string
		for _, part := range e.Unwrap() {
			all = append(all, libraryTexts(part)...)
		}
		return all
	}
	return nil
}

// ofLibrary tells the types of libraries that are given secrets. The answers of servers are
// none: servers do not repeat a password, and name users, databases and exchanges.
func ofLibrary(err error) bool {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch path := t.PkgPath(); {
	case slices.Contains([]string{"errors", "fmt", "io", "io/fs", "os", "syscall", "context", "strconv"}, path):
		return false
	case strings.HasPrefix(path, "github.com/transmsg/transmsg"):
		return false
	}
	return !slices.Contains([]string{"mysql.MySQLError", "pgconn.PgError", "amqp091.Error"}, t.String())
}

// logged is ReplaceAttr of a log: errors are cleaned, everything else stays as it is.
func (r *redactor) logged(_ []string, attr slog.Attr) slog.Attr {
	if err, ok := attr.Value.Any().(error); ok && err != nil {
		return slog.String(attr.Key, r.errorText(err))
	}
	return attr
}

// Write implements io.Writer. Each call is one or more whole lines.
func (r *redactor) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.out, r.inURLs(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
