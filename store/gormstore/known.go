package gormstore

// This file lists the errors after which it is certain that a statement stored nothing.
// Whatever is not listed is unknown: a proxy that has passed the statement on answers
// with numbers of its own when the server's answer does not come.

// classifyMySQL judges MySQL's and MariaDB's error numbers.
func classifyMySQL(number int) class {
	switch number {
	case 1062: // duplicate key
		return classDuplicate
	case 1213, 1020, // deadlock, record changed since last read: undone by InnoDB
		1412, 1615: // table definition changed, statement must be prepared again: before it ran
		return classRetry
	case 1205, 3572: // lock wait timeout, NOWAIT
		return classBusy
	case 1290, 1792, 1836: // --read-only, read-only transaction, read-only mode
		return classReadOnly
	case 1048, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 1690, // null, range, truncated, no default, length
		1216, 1452, 1526, 3819, 4025, // foreign key, partition, check constraint
		1118, 1153, // row size, packet size
		1644: // SIGNAL of a trigger
		return classData
	case 1046, 1049, 1054, 1064, 1136, 1146, 1149, 1305, // database, column, syntax, count, table, savepoint
		1044, 1142, 1143, 1227, 1370, 1449, 1820, // privileges, a definer who is gone, expired password
		1235, 1243, 1295, 1390, 1461, // not supported, and what cannot be prepared
		1036, 1099, 1100, 1223, // a table or a server that is locked against writes
		1226,       // a limit of the user, looked at before the statement
		1665,       // binlog_format=STATEMENT, looked at before the statement
		1114, 1206: // table full, lock table full: undone by InnoDB
		return classRefused
	}
	return classUnknown
}

// needsReprepare reports whether the server wants a prepared statement to be prepared again.
func (d *dialect) needsReprepare(err error) bool {
	r, _ := d.reply(err)
	return d.name == dialectMySQL && r.Number == 1615
}

// classifyPostgres judges SQLSTATEs. A pooler speaks in classes 08, 53, 57 and 58, and those
// are left out: of the server too they are about the connection.
func classifyPostgres(code string) class {
	switch code {
	case "23505": // unique violation
		return classDuplicate
	case "40001", "40P01": // serialization failure, deadlock
		return classRetry
	case "55P03": // lock not available
		return classBusy
	case "25006": // read-only transaction
		return classReadOnly
	case "P0001", "44000": // RAISE of a trigger, a view's check option
		return classData
	case "53100": // disk full: the statement is aborted
		return classRefused
	}
	switch code[:min(2, len(code))] {
	case "22", "23", "54": // value, constraint, limits
		return classData
	case "0A", "21", "25", "26", "3D", "3F", "42":
		// not supported, cardinality, transaction state, names, syntax, rights
		return classRefused
	}
	return classUnknown
}

// classifySQLite judges result codes, which are primary in the low byte.
func classifySQLite(code int) class {
	const (
		logic, perm, busy, locked, readOnly, full = 1, 3, 5, 6, 8, 13
		cantOpen, schema, tooBig, constraint      = 14, 17, 18, 19
		mismatch, misuse, auth, notADatabase      = 20, 21, 23, 26
		primaryKey, unique                        = 1555, 2067
	)
	if code == primaryKey || code == unique {
		return classDuplicate
	}
	switch code & 0xff {
	case busy, locked, schema:
		return classRetry
	case readOnly:
		return classReadOnly
	case constraint, tooBig, mismatch:
		return classData
	case logic, perm, full, cantOpen, misuse, auth, notADatabase: // before it ran, or rolled back by SQLite
		return classRefused
	}
	return classUnknown
}
