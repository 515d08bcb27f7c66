// Package dbtest gives tests and acceptance checks real databases.
//
// On the shared servers of the machine every test has a schema or database of
// its own: [MySQL], [Postgres], [SQLite]. What stops, kills, locks or sets read
// only is done to a private server: [StartMariaDB], [StartPostgres],
// [StartRedis]. Each has a variant without testing for programs (New...).
//
// Environment variables lead to servers of other versions: the shared ones by their
// addresses, the private ones by the root folders that their programs are in.
//
// Without a server tests fail and name the next step; they are never skipped.
package dbtest
