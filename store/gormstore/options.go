package gormstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"regexp"
	"time"
)

// The defaults and bounds of [Options].
const (
	DefaultMaxOpenConns  = 8
	DefaultInsertTimeout = 10 * time.Second

	maxPrefix        = 20
	maxOpenConnsTop  = 1000
	minInsertTimeout = 100 * time.Millisecond
	maxInsertTimeout = 5 * time.Minute
)

// prefixPattern keeps a prefix usable unquoted in all dialects.
var prefixPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Options set up a [Store]. The zero value is the default.
type Options struct {
	// Prefix is put before every table and index name: lower-case letters, digits and
	// underscores, at most 20, not starting with a digit. Defaults to none.
	Prefix string
	// MaxOpenConns bounds a pool of the store's own, 1 to 1000; a caller's pool stays as it
	// is, and SQLite always has one connection. Defaults to 8.
	MaxOpenConns int
	// InsertTimeout is the deadline of one shared INSERT: it belongs to several callers,
	// so none of their contexts ends it; a shared read back has the same. Below about 5 s a
	// row whose id somebody holds locked may fail others of its statement. 100 ms to 5 min.
	// Defaults to 10 s.
	InsertTimeout time.Duration
	// SkipSchemaCheck leaves out the call of [Store.CheckSchema], for a store that is
	// opened to migrate. Defaults to false.
	SkipSchemaCheck bool
	// Credentials returns user and password instead of the DSN's. It is asked at every dial
	// of the store's own pool, so that they can be rotated. Nil means those of the DSN.
	Credentials func(context.Context) (user, password string, err error)
	// TLS returns the settings of one connection of the store's own pool to a server; it
	// is asked at every dial and the result is cloned. An empty ServerName becomes the
	// DSN's host. A server without TLS is an error then, whatever the DSN says. Nil leaves
	// TLS to the DSN: tls=true of MySQL, sslmode=verify-full of PostgreSQL.
	TLS func(context.Context) (*tls.Config, error)
	// Logger receives what has no caller to return it to. Nil is slog.Default().
	Logger *slog.Logger
}

// Validate reports the first option out of bounds, by name, value and bound.
func (o Options) Validate() error {
	_, err := o.withDefaults()
	return err
}

// withDefaults validates o and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if o.Prefix != "" && (len(o.Prefix) > maxPrefix || !prefixPattern.MatchString(o.Prefix)) {
		return o, fmt.Errorf("options: Prefix %.40q must be at most %d lower-case letters, digits and "+
			"underscores and not start with a digit", o.Prefix, maxPrefix)
	}
	if o.MaxOpenConns == 0 {
		o.MaxOpenConns = DefaultMaxOpenConns
	}
	if o.MaxOpenConns < 1 || o.MaxOpenConns > maxOpenConnsTop {
		return o, fmt.Errorf("options: MaxOpenConns %d must be 1 to %d", o.MaxOpenConns, maxOpenConnsTop)
	}
	if o.InsertTimeout == 0 {
		o.InsertTimeout = DefaultInsertTimeout
	}
	if o.InsertTimeout < minInsertTimeout || o.InsertTimeout > maxInsertTimeout {
		return o, fmt.Errorf("options: InsertTimeout %s must be %s to %s",
			o.InsertTimeout, minInsertTimeout, maxInsertTimeout)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}
