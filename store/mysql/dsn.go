package mysql

import (
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/store/internal/dial"
)

const (
	unixForm = "user:password@unix(/PATH)/database"
	forms    = "the forms are mysql://user:password@host:3306/database and user:password@tcp(host:port)/database; " +
		"over a Unix socket " + unixForm
)

// driverForm is how a DSN of the MySQL driver looks up to its address; it may stand behind
// mysql:// too.
var driverForm = regexp.MustCompile(`^([^@]*@)?(tcp|unix)\([^)]*\)/`)

// parse reads a DSN. Its errors never quote it: a part that cannot be parsed may be the
// password.
func parse(dsn string) (*mysql.Config, error) {
	scheme, rest, _ := strings.Cut(dsn, ":")
	switch {
	case dsn == "":
		return nil, errors.New("dsn is empty; " + forms)
	case scheme == "mysql" || scheme == "mariadb":
		if form := strings.TrimPrefix(rest, "//"); driverForm.MatchString(form) {
			return parseMixedForm(form)
		}
		return parseURL(dsn)
	case strings.Contains(dsn, "@") && strings.Contains(dsn, "/") && !strings.Contains(dsn, "://"):
		return parseDriverForm(dsn)
	}
	return nil, errors.New("dsn has no known form; " + forms)
}

func parseURL(dsn string) (*mysql.Config, error) {
	u, err := dial.ParseURL(dsn, "", unixForm)
	if err != nil {
		return nil, err
	}
	addr := u.Host
	if u.Port() == "" {
		addr += ":3306"
	}
	// With the address: the driver takes the name to verify under tls=true from it.
	params := "tcp(" + addr + ")/"
	if u.RawQuery != "" {
		params += "?" + u.RawQuery
	}
	cfg, err := mysql.ParseDSN(params)
	if err != nil {
		return nil, errors.New("dsn has parameters that the driver refuses; if a ? is in the password: " +
			dial.EscapeHint)
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr = "tcp", addr
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	return complete(cfg)
}

// parseMixedForm reads the driver's form behind mysql://. There nothing is encoded, in
// a URL everything is: with a % nobody can tell which password is meant.
func parseMixedForm(form string) (*mysql.Config, error) {
	user, _, _ := strings.Cut(form, "@")
	if strings.Contains(user, "%") {
		return nil, errors.New("dsn mixes a URL and the driver's form, and user or password contain %: " +
			"write mysql://user:password@host:3306/database with them percent-encoded, or leave " +
			"mysql:// out and them " +
			"as they are")
	}
	return parseDriverForm(form)
}

func parseDriverForm(dsn string) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil || cfg.Net != "tcp" && cfg.Net != "unix" { // a misread password may stand for the network
		return nil, errors.New("dsn is not of the form user:password@tcp(host:port)/database?parameters")
	}
	return complete(cfg)
}

// complete sets what the store relies on: one round trip a statement
// (InterpolateParams), the server's own packet limit, and times for goose.
func complete(cfg *mysql.Config) (*mysql.Config, error) {
	if cfg.DBName == "" {
		return nil, errors.New("dsn names no database: put /NAME after host and port")
	}
	cfg.InterpolateParams, cfg.MaxAllowedPacket = true, 0
	cfg.ParseTime, cfg.Loc, cfg.MultiStatements = true, time.UTC, false
	cfg.RejectReadOnly = false // the store evicts by itself and keeps the error's text
	cfg.Logger = &mysql.NopLogger{}
	if cfg.Timeout == 0 {
		cfg.Timeout = dial.Timeout
	}
	return cfg, nil
}
