package confirms

import (
	"context"
	"time"

	"github.com/transmsg/transmsg/internal/broker"
)

// loginAgain is the time after a renewal in which a refusal of the login says that the
// renewal did not help.
const loginAgain = 5 * time.Second

// keepLogin gives the broker new credentials on the open connection before the old ones end,
// and when it refuses them. What is in flight stays there. A login that cannot be renewed so
// (the same again, another user's, refused) is left to a new connection.
func (se *session) keepLogin() {
	var renewed time.Time
	for {
		timer := time.NewTimer(broker.RenewIn(se.login.Password, time.Now()))
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
	given := broker.Login{User: user, Password: password}
	switch {
	case err == nil && given == se.login && !refused:
		return false
	case err != nil && !refused:
		se.s.log.Warn("get credentials to renew the login", "error", err, "role", se.role.name)
		return false
	case err != nil || given == se.login || user != se.login.User:
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
