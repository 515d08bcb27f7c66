// Package migrations creates and upgrades the tables of store/gormstore, with goose.
//
// A service does not link it: the schema is not the library's to change. `transmsg migrate up`
// applies it once, from one place; `transmsg migrate --print` prints the text of [SQL]. [Open]
// is for SQLite files, in-memory databases and tests.
package migrations

// The dialects, as [gormstore.Store.Dialect] returns them. MariaDB is "mysql".
const (
	dialectMySQL    = "mysql"
	dialectPostgres = "postgres"
	dialectSQLite   = "sqlite"
)
