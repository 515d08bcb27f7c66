package broker

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// loginEvery is how often an open connection asks for credentials that do not say when
	// they end, loginLeast the least time between two questions.
	loginEvery = time.Minute
	loginLeast = time.Second
)

// Login is what a connection was opened with, or renewed to.
type Login struct{ User, Password string }

// RefusesLogin reports whether a 403 is not about the exchange or queue that it names: a backend could
// not decide, most often since the login has run out. Observed on 3.10 with OAuth2: "access to
// exchange 'ex' in vhost '/' refused for user 'u', backend rabbit_auth_backend_oauth2 returned
// an error: "Provided JWT token has expired at timestamp ..."".
func RefusesLogin(e *amqp.Error) bool {
	return e != nil && e.Server && e.Code == amqp.AccessRefused && strings.Contains(e.Reason, " returned an error: ")
}

// RenewIn is how long the password is good for a connection: three quarters of what is left
// of a token that says when it ends, else loginEvery.
func RenewIn(password string, now time.Time) time.Duration {
	end, ok := tokenEnd(password)
	if !ok {
		return loginEvery
	}
	return min(max(end.Sub(now)*3/4, loginLeast), loginEvery)
}

// tokenEnd reads when a JSON web token ends. It checks nothing else: the broker does.
func tokenEnd(password string) (time.Time, bool) {
	parts := strings.Split(password, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1e11 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Exp), 0), true
}
