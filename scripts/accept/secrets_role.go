package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// addRole makes a database user that may do everything in the world's database, and
// returns its DSN.
func (c *secretRun) addRole(password string) (string, error) {
	quoted := "'" + strings.NewReplacer(`'`, `''`).Replace(password) + "'"
	if c.Store == "postgres" {
		u, err := url.Parse(c.world.dsn)
		if err != nil {
			return "", err
		}
		u.User = url.UserPassword(c.role, password)
		c.drop("role "+c.role, func() error { return c.admin("DROP OWNED BY "+c.role, "DROP ROLE "+c.role) })
		return u.String(), c.admin("CREATE ROLE "+c.role+" LOGIN PASSWORD "+quoted,
			"GRANT ALL ON ALL TABLES IN SCHEMA public TO "+c.role,
			"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO "+c.role)
	}
	cfg, err := mysql.ParseDSN(c.world.dsn)
	if err != nil {
		return "", err
	}
	quoted = strings.ReplaceAll(quoted, `\`, `\\`)
	user := "'" + c.role + "'@'%'"
	c.drop("user "+c.role, func() error { return c.admin("DROP USER " + user) })
	cfg.User, cfg.Passwd = c.role, password
	return cfg.FormatDSN(), c.admin("CREATE USER "+user+" IDENTIFIED BY "+quoted,
		"GRANT ALL ON "+cfg.DBName+".* TO "+user)
}

// databaseRefuses locks the user out and closes its connections.
func (c *secretRun) databaseRefuses(ctx context.Context) error {
	if c.Store == "postgres" {
		return c.admin("ALTER ROLE "+c.role+" NOLOGIN",
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+c.role+"'")
	}
	if err := c.admin("ALTER USER '" + c.role + "'@'%' IDENTIFIED BY 'another'"); err != nil {
		return err
	}
	ids, err := c.db.strings(ctx, "SELECT id FROM information_schema.processlist WHERE user = ?", c.role)
	for _, id := range ids {
		_ = c.admin("KILL " + id) // it may have ended by itself
	}
	return err
}

func (c *secretRun) admin(statements ...string) error {
	for _, q := range statements {
		if _, err := c.db.db.Exec(q); err != nil {
			return fmt.Errorf("%.20s: %w", q, err)
		}
	}
	return nil
}

// databaseAccepts lets the user in again.
func (c *secretRun) databaseAccepts() error {
	if c.Store == "postgres" {
		return c.admin("ALTER ROLE " + c.role + " LOGIN")
	}
	password := strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(c.canaries["the database's user"])
	return c.admin("ALTER USER '" + c.role + "'@'%' IDENTIFIED BY '" + password + "'")
}
