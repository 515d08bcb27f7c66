// Package anystore finds the dialect of a database by the form of its DSN. It links the drivers
// of all dialects and goose, so it is for the binaries, the checks and tests alone.
package anystore

import (
	"context"
	"errors"
	"strings"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
	"github.com/transmsg/transmsg/store/mysql"
	"github.com/transmsg/transmsg/store/postgres"
	"github.com/transmsg/transmsg/store/sqlite"
)

const forms = "the forms are mysql://user:password@host:3306/database, " +
	"postgres://user:password@host:5432/database, sqlite::memory: and sqlite:PATH; over a Unix socket " +
	"user:password@unix(/PATH)/database and postgres://user:password@/database?host=/FOLDER"

// Source returns the source of the DSN's dialect. Accepted forms are
// mysql://user:password@host:port/database?parameters, user:password@tcp(host:port)/database,
// postgres://..., sqlite:PATH, sqlite::memory: and a path that ends in .db or .sqlite. Errors
// come from opening it, and contain nothing of the DSN.
func Source(dsn string) gormstore.Source {
	scheme, _, _ := strings.Cut(dsn, ":")
	switch {
	case dsn == "":
		return gormstore.Refused(errors.New("dsn is empty; " + forms))
	case scheme == "mysql" || scheme == "mariadb":
		return mysql.DSN(dsn)
	case scheme == "postgres" || scheme == "postgresql":
		return postgres.DSN(dsn)
	case scheme == "sqlite", dsn == ":memory:", strings.HasSuffix(dsn, ".db"), strings.HasSuffix(dsn, ".sqlite"):
		return sqlite.DSN(dsn)
	case strings.Contains(dsn, "@") && strings.Contains(dsn, "/") && !strings.Contains(dsn, "://"):
		return mysql.DSN(dsn)
	}
	return gormstore.Refused(errors.New("dsn has no known form; " + forms))
}

// Gorm returns the source of a *gorm.DB of any dialect.
func Gorm(db *gorm.DB) gormstore.Source {
	switch db.Name() {
	case "mysql":
		return mysql.Gorm(db)
	case "postgres":
		return postgres.Gorm(db)
	}
	return sqlite.Gorm(db)
}

// Open opens the store of a DSN.
func Open(ctx context.Context, dsn string, o gormstore.Options) (*gormstore.Store, error) {
	return gormstore.Open(ctx, Source(dsn), o)
}

// Migrated opens the store of a DSN and applies the migrations that are missing.
func Migrated(ctx context.Context, dsn string, o gormstore.Options) (*gormstore.Store, error) {
	return migrations.Open(ctx, Source(dsn), o)
}
