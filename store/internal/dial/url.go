package dial

import (
	"errors"
	"net/url"
	"strings"
)

// EscapeHint says what to write for reserved characters in a DSN of URL form.
const EscapeHint = "percent-encode special characters in user and password " +
	"(@ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25)"

// ParseURL parses a DSN in URL form without ever quoting it: a part that cannot be parsed may
// be the password. The host may be missing where the parameter of this name says where the
// server is; form is what to write for a Unix socket.
func ParseURL(dsn, param, form string) (*url.URL, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("dsn is not a valid URL: " + EscapeHint + "; a Unix socket is written " + form)
	}
	if strings.Contains(u.Path, "@") || u.Fragment != "" {
		return nil, errors.New("dsn has no host, or its password contains a reserved character: " + EscapeHint)
	}
	if u.Host == "" && !u.Query().Has(param) {
		return nil, errors.New("dsn has no host: put HOST:PORT before /database; a Unix socket is written " + form)
	}
	return u, nil
}
