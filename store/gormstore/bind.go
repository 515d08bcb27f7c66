package gormstore

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// A server takes what a connection sends for text in the session's character set. On a caller's
// connection that may be any: under charset=latin1 an exchange "größe" would be stored as other
// characters, and under utf8 without strict mode an emoji would end it. Digits and letters are
// the same in all of them: so what is not plain ASCII goes as hexadecimal or Base64 digits, and
// the server makes the bytes out of them. These are the parameters of a row by their position.
var (
	textParams = []int{1, 2, 3, 4, 12} // service, message_key, exchange, routing_key, claimed_by
	blobParams = []int{5, 6}           // properties, payload
)

// insertTxStatement is the INSERT of rows through a caller's handle, and its parameters. It is
// portable over drivers: no arrays, which lib/pq would refuse.
func (s *Store) insertTxStatement(rows []*model.Draft) (query string, args []any) {
	// The caller's user may insert and no more: to refer to a column is to SELECT it.
	tuple := insertTupleOf(s.d.now, s.d)
	args = make([]any, 0, len(rows)*insertParams)
	for _, r := range rows {
		args = appendRowArgs(args, r)
	}
	if !s.d.plain(args) {
		tuple = s.d.codedTuple(tuple)
		for i := 0; i < len(args); i += insertParams {
			s.d.code(args[i : i+insertParams])
		}
	}
	query = "INSERT INTO " + s.sql.table + " (" + insertColumns + ") VALUES " + strings.Repeat(tuple+",", len(rows))
	query = s.guardTx(query[:len(query)-1])
	if s.d.name != dialectMySQL {
		query += " ON CONFLICT (id) DO NOTHING"
	}
	return s.d.bind(query), args
}

// plain reports whether no character set of a session can change the parameters. SQLite has none.
// On PostgreSQL bytes are sent as such; MySQL's driver sends them for text.
func (d *dialect) plain(args []any) bool {
	if d.name == dialectSQLite {
		return true
	}
	for _, a := range args {
		switch v := a.(type) {
		case string:
			if !ascii(v) {
				return false
			}
		case []byte:
			if d.name == dialectMySQL && !ascii(v) {
				return false
			}
		}
	}
	return true
}

func ascii[T string | []byte](v T) bool {
	for i := range len(v) {
		if v[i] >= 0x80 {
			return false
		}
	}
	return true
}

// codedTuple is the tuple of a row for parameters that went through code.
func (d *dialect) codedTuple(tuple string) string {
	text, blob := "CONVERT(UNHEX(?) USING utf8mb4),", "FROM_BASE64(?),"
	if d.dollar {
		text, blob = "convert_from(decode(?,'hex'),'UTF8'),", "?,"
	}
	const last = "?,'READY')"
	tuple = strings.Replace(tuple, "(?,?,?,?,?,?,?,", "(?,"+strings.Repeat(text, 4)+blob+blob, 1)
	return strings.TrimSuffix(tuple, last) + text + "'READY')"
}

// code turns the parameters of one row into digits.
func (d *dialect) code(args []any) {
	for _, i := range textParams {
		if v, ok := args[i].(string); ok {
			args[i] = hex.EncodeToString([]byte(v))
		}
	}
	for _, i := range blobParams {
		if v, ok := args[i].([]byte); ok && d.name == dialectMySQL {
			args[i] = base64.StdEncoding.EncodeToString(v)
		}
	}
}
