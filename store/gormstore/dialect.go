package gormstore

import (
	"strconv"
	"strings"
)

// The dialects, as [Store.Dialect] returns them. MariaDB is "mysql".
const (
	dialectMySQL    = "mysql"
	dialectPostgres = "postgres"
	dialectSQLite   = "sqlite"
)

// dialect is what differs between the servers. Statements are written with ? and
// rebound once for PostgreSQL.
type dialect struct {
	name string
	// now is the database's clock in Unix milliseconds, as an expression for WHERE, SET
	// and SELECT. It must be one value per statement and usable as an index bound.
	now string
	// forUpdate and skipLocked end a locking SELECT; empty on SQLite, whose
	// transactions are immediate: the only writer holds the whole database.
	forUpdate, skipLocked string
	// maxParams bounds the parameters of one statement.
	maxParams int
	// dollar says that placeholders are $1, $2, ...
	dollar bool
	// driver reads the errors of the one driver that is linked for it.
	driver Driver
}

func newDialect(driver Driver) *dialect {
	d := dialectOf(driver.Dialect)
	d.driver = driver
	return d
}

func dialectOf(name string) *dialect {
	switch name {
	case dialectMySQL:
		return &dialect{
			// Not UNIX_TIMESTAMP(): that goes through the session's time zone.
			name: name, now: "(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(3)) DIV 1000)",
			forUpdate: " FOR UPDATE", skipLocked: " FOR UPDATE SKIP LOCKED", maxParams: 65535,
		}
	case dialectPostgres:
		return &dialect{
			// Not now(): that is the transaction's start. The subquery makes the volatile
			// clock one value per statement, which an index scan can use as its bound.
			name: name, now: "(SELECT (extract(epoch FROM clock_timestamp())*1000)::bigint)",
			forUpdate: " FOR UPDATE", skipLocked: " FOR UPDATE SKIP LOCKED", maxParams: 65535, dollar: true,
		}
	case dialectSQLite:
		return &dialect{name: name, now: "CAST(unixepoch('subsec')*1000 AS INTEGER)", maxParams: 32766}
	}
	return nil
}

// bind turns ? into $n where the dialect wants it. The statements contain no other
// question marks.
func (d *dialect) bind(query string) string {
	if !d.dollar {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 32)
	for n := 1; ; n++ {
		i := strings.IndexByte(query, '?')
		if i < 0 {
			b.WriteString(query)
			return b.String()
		}
		b.WriteString(query[:i])
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		query = query[i+1:]
	}
}

// in returns a condition "= ANY(?)" or "IN (?,?,...)" for the ids, and args with the
// ids appended. With the array PostgreSQL prepares one statement whatever their number.
func (d *dialect) in(ids []string, args ...any) (string, []any) {
	if d.dollar {
		return "= ANY(?)", append(args, ids)
	}
	for _, id := range ids {
		args = append(args, id)
	}
	return "IN (" + placeholders(len(ids)) + ")", args
}

// later is the greater of two numbers.
func (d *dialect) later(a, b string) string {
	if d.name == dialectSQLite {
		return "MAX(" + a + "," + b + ")"
	}
	return "GREATEST(" + a + "," + b + ")"
}

// placeholders returns "?,?,...,?" with n question marks.
func placeholders(n int) string { return strings.Repeat("?,", n-1) + "?" }

// forceKey makes MySQL go by the primary key: on a small table it may otherwise scan
// everything and lock other callers' rows.
func (d *dialect) forceKey() string {
	return d.force("PRIMARY")
}

// forceDue makes MySQL go by the index of due rows.
func (d *dialect) forceDue(prefix string) string { return d.force(prefix + "trans_message_due") }

// force makes MySQL go by an index.
func (d *dialect) force(index string) string {
	if d.name == dialectMySQL {
		return " FORCE INDEX (" + index + ")"
	}
	return ""
}

// exactly lists columns to group by. MySQL's _bin collations ignore trailing spaces, so that
// it would take "pay" and "pay " for one: there the lengths must be equal too.
func (d *dialect) exactly(columns ...string) string {
	list := strings.Join(columns, ", ")
	if d.name != dialectMySQL {
		return list
	}
	for _, c := range columns {
		list += ", LENGTH(" + c + ")"
	}
	return list
}
