package dial

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

// Timeout bounds a dial where the DSN does not say otherwise.
const Timeout = 5 * time.Second

// Session prepares every new connection.
type Session struct {
	driver.Connector
	// Statements are executed on each connection before it is used.
	Statements []string
	// Within bounds a dial with its handshake and the statements: the pool makes some
	// connections without anybody's context.
	Within time.Duration
}

// Connect implements driver.Connector.
func (s Session) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Within)
	defer cancel()
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	x, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver cannot execute statements"), conn.Close())
	}
	for _, statement := range s.Statements {
		if _, err := x.ExecContext(ctx, statement, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}
