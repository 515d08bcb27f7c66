package gormstore

import "strings"

const (
	// maxRows bounds the rows or ids of one statement.
	maxRows = 500
	// maxBytes bounds the row data of one INSERT; a single row may be larger.
	maxBytes = 4 << 20
	// insertParams is the number of parameters of one inserted row.
	insertParams = 13

	insertColumns = "id, service, message_key, exchange, routing_key, properties, payload, size, epoch, " +
		"created_at, updated_at, next_attempt_at, not_before, claimed_by, status"
	// rowColumns are what scanRow reads; the payload follows where it is wanted.
	rowColumns = "id, service, status, next_attempt_at, attempts, failures, claims, version, epoch, " +
		"message_key, exchange, routing_key, properties, size, last_code, last_error, claimed_by, " +
		"created_at, updated_at, replayed_at, first_failed_at, lone_claims, lone_since, closes, closes_since, " +
		"not_before"
)

// statements are the texts that do not depend on a call, and the table names.
type statements struct {
	table, events, alerts, version string
	inbox, attempts, letters       string

	// insert is the text for maxRows rows; the text for fewer is a prefix of it, so that
	// no text is built or kept per row count. On PostgreSQL it takes arrays and is one
	// prepared statement for every count.
	insert     string
	insertHead int // bytes before the first tuple
	insertRow  int // bytes of one tuple and its comma
}

func newStatements(d *dialect, prefix string) statements {
	st := statements{
		table: prefix + "trans_message", events: prefix + "trans_message_event",
		alerts: prefix + "trans_message_alert",
		inbox:  prefix + "trans_inbox", attempts: prefix + "trans_inbox_attempt",
		letters: prefix + "trans_dead_letter",
		version: VersionTable(prefix),
	}
	if d.dollar {
		st.insert = "INSERT INTO " + st.table + " (" + insertColumns + ") " +
			"SELECT u.id, u.service, u.message_key, u.exchange, u.routing_key, u.properties, " +
			"substr($14::bytea, u.first, u.length), u.size, u.epoch, n.now, n.now, " +
			d.later("n.now + u.delay", "u.not_before") + ", u.not_before, u.instance, 'READY' " +
			"FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], " +
			"$7::int[], $8::int[], $9::bigint[], $10::text[], $11::int[], $12::int[], $13::bigint[]) " +
			"AS u (id, service, message_key, exchange, routing_key, properties, size, epoch, delay, instance, " +
			"first, length, not_before) CROSS JOIN " + d.now + " AS n (now)"
		return st
	}
	head := "INSERT INTO " + st.table + " (" + insertColumns + ") VALUES "
	tuple := insertTuple(d) + ","
	st.insert = head + strings.Repeat(tuple, maxRows)
	st.insertHead, st.insertRow = len(head), len(tuple)
	return st
}

// insertTuple is the VALUES tuple of one row. MySQL takes the clock once and then from the
// column set before it: an INSERT of 200 rows that asks three times in each is 1.4 times as
// slow, most of it in the parser.
func insertTuple(d *dialect) string {
	if d.name == dialectMySQL {
		return insertTupleOf("created_at", d)
	}
	return insertTupleOf(d.now, d)
}

// insertTupleOf is insertTuple with an expression for the clock once it is in created_at.
func insertTupleOf(again string, d *dialect) string {
	return "(?,?,?,?,?,?,?,?,?," + d.now + "," + again + "," + d.later(again+"+?", "?") + ",?,?,'READY')"
}

// insertText is the text for n rows, n at most maxRows.
func (st *statements) insertText(d *dialect, n int) string {
	if d.dollar {
		return st.insert
	}
	return st.insert[:st.insertHead+n*st.insertRow-1]
}
