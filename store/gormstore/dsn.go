package gormstore

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// dialTimeout bounds a dial where the DSN does not say otherwise.
const dialTimeout = 5 * time.Second

// target is a parsed DSN. It holds the secret; its label does not.
type target struct {
	dialect string
	label   string // "mysql 127.0.0.1:3306/shop": names the server in every error
	mysql   *mysql.Config
	pg      *pgx.ConnConfig
	sqlite  string // the driver's own DSN
	memory  bool   // an in-memory SQLite database
}

// parseDSN reads a DSN. Its errors never quote the DSN: a part that cannot be parsed
// may be the password.
func parseDSN(dsn string) (target, error) {
	scheme, rest, _ := strings.Cut(dsn, ":")
	switch {
	case dsn == "":
		return target{}, errors.New("dsn is empty; " + dsnForms)
	case scheme == "mysql" || scheme == "mariadb":
		if form := strings.TrimPrefix(rest, "//"); driverForm.MatchString(form) {
			return parseMySQLMixedForm(form)
		}
		return parseMySQLURL(dsn)
	case scheme == "postgres" || scheme == "postgresql":
		return parsePostgres(dsn)
	case scheme == "sqlite":
		return parseSQLite(strings.TrimPrefix(rest, "//"))
	case dsn == memoryName || strings.HasSuffix(dsn, ".db") || strings.HasSuffix(dsn, ".sqlite"):
		return parseSQLite(dsn)
	case strings.Contains(dsn, "@") && strings.Contains(dsn, "/") && !strings.Contains(dsn, "://"):
		return parseMySQLDriverForm(dsn)
	}
	return target{}, errors.New("dsn has no known form; " + dsnForms)
}

const (
	memoryName = ":memory:"
	dsnForms   = "the forms are mysql://user:password@host:3306/database, " +
		"postgres://user:password@host:5432/database, sqlite::memory: and sqlite:PATH; over a Unix socket " +
		unixMySQL + " and " + unixPostgres
	unixMySQL    = "user:password@unix(/PATH)/database"
	unixPostgres = "postgres://user:password@/database?host=/FOLDER"
	escapeHint   = "percent-encode special characters in user and password " +
		"(@ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25)"
)

// driverForm is how a DSN of the MySQL driver looks up to its address; it may stand behind
// mysql:// too.
var driverForm = regexp.MustCompile(`^([^@]*@)?(tcp|unix)\([^)]*\)/`)

// parseURL parses a DSN in URL form without ever quoting it. The host may be missing where
// the parameter of this name says where the server is; form is what to write for a socket.
func parseURL(dsn, param, form string) (*url.URL, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("dsn is not a valid URL: " + escapeHint + "; a Unix socket is written " + form)
	}
	if strings.Contains(u.Path, "@") || u.Fragment != "" {
		return nil, errors.New("dsn has no host, or its password contains a reserved character: " + escapeHint)
	}
	if u.Host == "" && !u.Query().Has(param) {
		return nil, errors.New("dsn has no host: put HOST:PORT before /database; a Unix socket is written " + form)
	}
	return u, nil
}

func parseMySQLURL(dsn string) (target, error) {
	u, err := parseURL(dsn, "", unixMySQL)
	if err != nil {
		return target{}, err
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
		return target{}, errors.New("dsn has parameters that the driver refuses; if a ? is in the password: " +
			escapeHint)
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr = "tcp", addr
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	return mysqlTarget(cfg)
}

// parseMySQLMixedForm reads the driver's form behind mysql://. There nothing is encoded, in
// a URL everything is: with a % nobody can tell which password is meant.
func parseMySQLMixedForm(form string) (target, error) {
	user, _, _ := strings.Cut(form, "@")
	if strings.Contains(user, "%") {
		return target{}, errors.New("dsn mixes a URL and the driver's form, and user or password contain %: " +
			"write mysql://user:password@host:3306/database with them percent-encoded, or leave " +
			"mysql:// out and them " +
			"as they are")
	}
	return parseMySQLDriverForm(form)
}

func parseMySQLDriverForm(dsn string) (target, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil || cfg.Net != "tcp" && cfg.Net != "unix" { // a misread password may stand for the network
		return target{}, errors.New("dsn is not of the form user:password@tcp(host:port)/database?parameters")
	}
	return mysqlTarget(cfg)
}

// mysqlTarget sets what the store relies on: one round trip a statement
// (InterpolateParams), the server's own packet limit, and times for goose.
func mysqlTarget(cfg *mysql.Config) (target, error) {
	if cfg.DBName == "" {
		return target{}, errors.New("dsn names no database: put /NAME after host and port")
	}
	cfg.InterpolateParams, cfg.MaxAllowedPacket = true, 0
	cfg.ParseTime, cfg.Loc, cfg.MultiStatements = true, time.UTC, false
	cfg.RejectReadOnly = false // the store evicts by itself and keeps the error's text
	cfg.Logger = &mysql.NopLogger{}
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	return target{dialect: dialectMySQL, label: "mysql " + cfg.Addr + "/" + cfg.DBName, mysql: cfg}, nil
}

func parsePostgres(dsn string) (target, error) {
	u, err := parseURL(dsn, "host", unixPostgres)
	if err != nil {
		return target{}, err
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		// pgx redacts the password itself, but not a password among the parameters.
		return target{}, errors.New("dsn is not valid for postgres: check port, sslmode and certificate files")
	}
	if strings.TrimPrefix(u.Path, "/") == "" && !u.Query().Has("dbname") {
		return target{}, errors.New("dsn names no database: put /NAME after host and port")
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = dialTimeout
	}
	cfg.RuntimeParams["client_encoding"] = "UTF8" // what the driver sends, whatever the DSN says
	label := fmt.Sprintf("postgres %s/%s", cmp.Or(u.Host, cfg.Host), cfg.Database)
	return target{dialect: dialectPostgres, label: label, pg: cfg}, nil
}

func parseSQLite(path string) (target, error) {
	if path == "" || strings.ContainsAny(path, "?#") {
		return target{}, errors.New("dsn: the path of a SQLite file must not be empty or contain ? or #")
	}
	t := target{dialect: dialectSQLite, label: "sqlite " + path, memory: path == memoryName}
	pragmas := "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"
	if t.memory {
		t.sqlite = memoryName + pragmas
	} else {
		t.sqlite = "file:" + (&url.URL{Path: path}).EscapedPath() + pragmas + "&_pragma=journal_mode(WAL)"
	}
	return t, nil
}
