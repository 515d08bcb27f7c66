// Package gormstore stores trans messages in MySQL 8.0+, MariaDB 10.6+, PostgreSQL 13+
// or SQLite.
//
// [Open] is the usual door: it opens a small pool of its own, so that storing a message
// never waits for a connection that the service's own open transactions hold. [New]
// works on a caller's *gorm.DB instead.
//
// Everything on the hot path is plain SQL. [Store.Insert] joins what concurrent callers
// hand in while one statement runs into the next multi-row INSERT. All times are Unix
// milliseconds of the database's clock: a process's own clock is never compared with it.
//
// The schema is not the library's to change: run `transmsg migrate up`, or apply the
// text of [MigrationSQL] yourself. [Store.CheckSchema] says when that is due.
//
// What this package does not do: decide about outcomes (that is the caller of
// [Store.Settle]), send anything, or hold a transaction while anything is sent.
package gormstore
