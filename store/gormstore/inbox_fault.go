package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/transmsg/transmsg/model"
)

// TxFault judges an error of a transaction on this kind of database, wherever in the chain of
// err the driver's own is. Texts are not looked at. The end of a context is [model.FaultOther]:
// whose context it was, the caller knows.
func (s *Store) TxFault(err error) model.TxFault {
	switch {
	case err == nil:
		return model.FaultOther
	case errors.Is(err, errRecordHeld):
		return model.FaultRivals
	}
	switch s.d.classify(err) {
	case classRetry, classBusy:
		return model.FaultRivals
	case classReadOnly:
		return model.FaultAway
	default: // about the statement, or about the connection
	}
	switch _, answered := s.d.reply(err); {
	case answered && s.d.away(err):
		return model.FaultAway
	case !answered && s.d.connectionLost(err):
		return model.FaultLost
	}
	return model.FaultOther
}

// away recognises answers by which a server says that it takes no work now.
func (d *dialect) away(err error) bool {
	r, _ := d.reply(err)
	switch d.name {
	case dialectMySQL:
		return mysqlAway(r.Number)
	case dialectPostgres:
		return postgresAway(r.State)
	}
	const ioErr, full, cantOpen = 10, 13, 14
	code := r.Number & 0xff
	return code == ioErr || code == full || code == cantOpen
}

func mysqlAway(number int) bool {
	switch number {
	case 1040, 1203, 1226, // too many connections, of all, of the user, a limit of the user
		1042, 1043, 1045, 1129, 1130, 1820, // hand-shake, refused login, blocked host, expired password
		1047,                               // a Galera node that is not ready
		1053, 1152, 1158, 1159, 1160, 1161, // shutdown, broken connections
		1927, 3169, 4031, // killed, idle for too long
		1021, 1114, 1206: // disk full, table full, lock table full
		return true
	}
	return false
}

func postgresAway(state string) bool {
	switch state[:min(2, len(state))] {
	case "08", "28", "53", "58": // connection, refused login, resources, system
		return true
	case "57": // shutdown, crash, starting; but 57014 is a statement that somebody cancelled
		return state != "57014"
	}
	return false
}

// connectionLost recognises a connection that broke or could not be made. A context that ended
// before anything was sent looks so to a driver, and is none.
func (d *dialect) connectionLost(err error) bool {
	var network *net.OpError
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return true
	case errors.As(err, &network):
		return !errors.Is(err, context.Canceled)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return d.notSent(err) || d.driver.Lost != nil && d.driver.Lost(err)
}
