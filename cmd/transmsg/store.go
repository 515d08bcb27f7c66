package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/store/gormstore"
)

// storeOptions are the settings of the database.
type storeOptions struct {
	dsn, dsnFile string
	prefix       string
	tls          tlsOptions
}

const storeForms = "mysql://user:password@host:3306/db, postgres://user:password@host:5432/db or sqlite:PATH"

// bind adds the flags; fallback says what happens without --store.
func (o *storeOptions) bind(fs *pflag.FlagSet, fallback string) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.dsn, "store", "", "database `DSN`: "+storeForms+" ("+fallback+")")
	set.StringVar(&o.dsnFile, "store-file", "",
		"`file` with the --store DSN; user and password are read again at each dial")
	o.tls.bind(fs, set, "store", "the database")
	set.StringVar(&o.prefix, "table-prefix", "", "prefix of the tables' names, at most 20 of a-z, 0-9 and _")
	fs.AddFlagSet(settings(set))
}

// resolve returns the DSN, or fallback without one; with no fallback it is a usage error.
func (o *storeOptions) resolve(a *app, fallback string) (string, error) {
	dsn, err := oneSecret("store", o.dsn, o.dsnFile)
	if err != nil {
		return "", err
	}
	if dsn == "" {
		dsn = fallback
	}
	if dsn == "" {
		return "", usagef("--store is required: the database of the services, %s.\n"+
			"Next: give --store, or set TRANSMSG_STORE or TRANSMSG_STORE_FILE", storeForms)
	}
	a.secrets.addURL(dsn)
	// Nobody is contacted: a mistake in the DSN is one of usage.
	err = anystore.Source(dsn).Err()
	if err == nil {
		err = gormstore.Options{Prefix: o.prefix}.Validate()
	}
	if err != nil {
		return "", usagef("--store: %s", a.secrets.errorText(err))
	}
	return dsn, nil
}

// options are what the settings say about the connections. dsn is the one that resolve
// has returned.
func (o *storeOptions) options(a *app, dsn string, log *slog.Logger) (gormstore.Options, error) {
	options := gormstore.Options{Prefix: o.prefix, Logger: log}
	sqlite := anystore.Source(dsn).Dialect() == "sqlite"
	if flag := o.tls.given(); flag != "" {
		if sqlite {
			return options, usagef("--%s: SQLite is a file", flag)
		}
		if err := o.tls.check(); err != nil {
			return options, err
		}
		options.TLS = o.tls.load
	}
	if o.dsnFile != "" && !sqlite && strings.Contains(dsn, "@") {
		options.Credentials = func(context.Context) (string, string, error) { return o.credentials(a) }
	}
	return options, nil
}

// credentials reads user and password again from --store-file. Rotation changes these; a
// new address needs a restart. Its errors hold nothing of the file.
func (o *storeOptions) credentials(a *app) (user, password string, err error) {
	dsn, err := readSecret("store-file", o.dsnFile)
	if err != nil {
		return "", "", err
	}
	a.secrets.addURL(dsn)
	if _, form, url := strings.Cut(dsn, "mysql://"); url && strings.Contains(form, ")/") {
		dsn = form // the driver's form behind mysql://
	}
	if strings.Contains(dsn, "://") {
		u, err := url.Parse(dsn)
		if err != nil || u.User == nil {
			return "", "", errors.New("--store-file: the DSN has no user any more, or is not valid")
		}
		password, _ = u.User.Password()
		return u.User.Username(), password, nil
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", "", errors.New("--store-file: the DSN is not valid any more")
	}
	return cfg.User, cfg.Passwd, nil
}

// openStore opens the database of an operators' verb.
func (a *app) openStore(ctx context.Context, o *storeOptions, log *slog.Logger) (*gormstore.Store, error) {
	dsn, err := o.resolve(a, "")
	if err != nil {
		return nil, err
	}
	options, err := o.options(a, dsn, log)
	if err != nil {
		return nil, err
	}
	return openDSN(ctx, anystore.Open, dsn, options)
}

// openTimeout bounds the opening of a database: a server of another kind may take the
// connection and say nothing.
const openTimeout = 20 * time.Second

// opener is [anystore.Open] or [anystore.Migrated].
type opener func(context.Context, string, gormstore.Options) (*gormstore.Store, error)

func openDSN(ctx context.Context, open opener, dsn string, options gormstore.Options) (*gormstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := open(ctx, dsn, options)
	return s, withNextStep(err)
}
