package confirms

import (
	"context"
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
	// loginAgain is the time after a renewal in which a refusal of the login says that the
	// renewal did not help.
	loginAgain = 5 * time.Second
)

// login is what a connection was opened with, or renewed to.
type login struct{ user, password string }

// isLoginCause reports whether a 403 is not about the exchange that it names: a backend could
// not decide, most often since the login has run out. Observed on 3.10 with OAuth2: "access to
// exchange 'ex' in vhost '/' refused for user 'u', backend rabbit_auth_backend_oauth2 returned
// an error: "Provided JWT token has expired at timestamp ..."".
func isLoginCause(e *amqp.Error) bool {
	return e != nil && e.Server && e.Code == amqp.AccessRefused && strings.Contains(e.Reason, " returned an error: ")
}

// keepLogin gives the broker new credentials on the open connection before the old ones end,
// and when it refuses them. What is in flight stays there. A login that cannot be renewed so
// (the same again, another user's, refused) is left to a new connection.
func (se *session) keepLogin() {
	var renewed time.Time
	for {
		timer := time.NewTimer(renewIn(se.login.password, time.Now()))
		refused := false
		select {
		case <-timer.C:
		case <-se.loginRefused:
			refused = true
		case <-se.over:
			timer.Stop()
			return
		}
		timer.Stop()
		if refused && !renewed.IsZero() && time.Since(renewed) < loginAgain {
			se.kill("the broker refuses the login, also a renewed one")
			return
		}
		if !se.s.mayCall(se) {
			continue // it reads nothing now: asked again when that is over
		}
		if !se.renewLogin(refused) {
			continue
		}
		renewed = time.Now()
		se.s.loginRenewed(se)
	}
}

// renewLogin asks for credentials and sends a new password. It reports whether the broker has
// taken one.
func (se *session) renewLogin(refused bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), se.s.cfg.DialTimeout)
	defer cancel()
	stop := context.AfterFunc(se.life, cancel)
	defer stop()
	user, password, err := se.s.cfg.Credentials(ctx)
	given := login{user, password}
	switch {
	case err == nil && given == se.login && !refused:
		return false
	case err != nil && !refused:
		se.s.log.Warn("get credentials to renew the login", "error", err, "role", se.role.name)
		return false
	case err != nil || given == se.login || user != se.login.user:
		if refused {
			se.kill("the broker refuses the login, and there is no newer one of this user")
		}
		return false
	}
	end := se.guard("renew the login") // the library's call knows no context
	err = se.conn.UpdateSecret(password, "renewed")
	end()
	if err != nil {
		se.kill("renew the login: " + err.Error())
		return false
	}
	se.login = given
	se.s.log.Debug("login renewed", "role", se.role.name, "generation", se.generation)
	return true
}

// renewIn is how long the password is good for a connection: three quarters of what is left
// of a token that says when it ends, else loginEvery.
func renewIn(password string, now time.Time) time.Duration {
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

// refuseLogin closes the session's gate until its login is renewed: every send would close a
// channel. A connection for suspects is simply made anew.
func (se *session) refuseLogin() {
	if se.role.alone {
		se.kill("the broker refuses the login")
		return
	}
	se.s.change(se, func() { se.loginBad = true })
	signal(se.loginRefused)
}

// loginRenewed opens the gate again.
func (s *Sender) loginRenewed(se *session) {
	s.change(se, func() { se.loginBad = false })
}

// mayCall reports whether the broker reads the session's connection.
func (s *Sender) mayCall(se *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !se.blocked
}
