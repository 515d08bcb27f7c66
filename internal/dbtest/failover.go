package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Replication roles are for MariaDB: MySQL has other words for each of them.
var errNotMariaDB = errors.New("fail-over is for a private MariaDB, and this is MySQL")

// semiSync is a server that may be either side: as a primary it commits when a replica has
// the transaction, before anybody sees it (AFTER_SYNC), and waits for that without end. It
// starts as a replica, read only: then what no replica was sent is taken out of its binary log
// and rolled back.
func semiSync() []string {
	return []string{
		"--gtid-strict-mode=ON", "--rpl-semi-sync-slave-enabled=ON", "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
		"--rpl-semi-sync-master-timeout=86400000", "--rpl-semi-sync-master-wait-no-slave=ON", "--read-only=ON",
		"--slave-net-timeout=10", "--init-rpl-role=SLAVE",
	}
}

// Attach makes the server a replica of the primary, starting it when it is down, and returns
// when it has all that the primary has. From then on the primary waits for it at each commit.
func (s *MariaDBServer) Attach(ctx context.Context, primary *MariaDBServer) error {
	if s.oracle {
		return errNotMariaDB
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	// First: a replica asks for it when it connects.
	if err := primary.Exec(ctx, "SET GLOBAL rpl_semi_sync_master_enabled = ON"); err != nil {
		return err
	}
	if err := s.Exec(ctx, "SET GLOBAL read_only = ON", "SET GLOBAL rpl_semi_sync_master_enabled = OFF", "STOP SLAVE",
		"SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos", primary.changeMaster(0), "START SLAVE"); err != nil {
		return err
	}
	if err := s.InStep(ctx, primary); err != nil {
		return err
	}
	return awaitSQL(ctx, "the primary has its replica", func() (bool, error) {
		n, err := primary.status(ctx, "Rpl_semi_sync_master_clients")
		return n == "1", err
	})
}

// InStep waits until the server has what the primary has committed by now.
func (s *MariaDBServer) InStep(ctx context.Context, primary *MariaDBServer) error {
	position, err := primary.ask(ctx, "SELECT @@GLOBAL.gtid_binlog_pos")
	if err != nil {
		return err
	}
	// The wait alone would pass on a server that has gone ways of its own.
	if err := awaitSQL(ctx, "the replica is connected", func() (bool, error) {
		slave, err := s.slave(ctx)
		if text := slave["Last_IO_Error"] + slave["Last_SQL_Error"]; err == nil && text != "" {
			err = fmt.Errorf("private mariadb: replica: %s", text)
		}
		return slave["Slave_IO_Running"] == "Yes", err
	}); err != nil {
		return err
	}
	left, err := s.ask(ctx, fmt.Sprintf("SELECT MASTER_GTID_WAIT('%s', 60)", position))
	if err == nil && left != "0" {
		slave, showErr := s.slave(ctx)
		err = errors.Join(fmt.Errorf("the replica did not reach %s: %v", position, slave), showErr)
	}
	return err
}

// Promote makes a replica the primary when it has carried out all that it was sent. Until
// another server is attached it commits alone.
func (s *MariaDBServer) Promote(ctx context.Context) error {
	if err := s.Exec(ctx, "STOP SLAVE IO_THREAD"); err != nil {
		return err
	}
	if err := awaitSQL(ctx, "the replica has carried out what it was sent", func() (bool, error) {
		slave, err := s.slave(ctx)
		if err != nil || slave["Last_SQL_Error"] != "" {
			return false, errors.Join(err, errors.New(slave["Last_SQL_Error"]))
		}
		done, err := s.ask(ctx, "SELECT MASTER_GTID_WAIT('"+slave["Gtid_IO_Pos"]+"', 0)")
		return done == "0", err
	}); err != nil {
		return err
	}
	return s.Exec(ctx, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF")
}

// status is one of SHOW STATUS.
func (s *MariaDBServer) status(ctx context.Context, name string) (string, error) {
	return s.ask(ctx, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = '"+name+"'")
}

// Status is a value of SHOW GLOBAL STATUS.
func (s *MariaDBServer) Status(ctx context.Context, name string) (string, error) {
	return s.status(ctx, name)
}

func (s *MariaDBServer) ask(ctx context.Context, query string) (answer string, err error) {
	err = withDB("mysql", s.AdminDSN(""), func(db *sql.DB) error {
		return db.QueryRowContext(ctx, query).Scan(&answer)
	})
	if err != nil {
		return "", fmt.Errorf("private mariadb: %s: %w", query, err)
	}
	return answer, nil
}

// slave is SHOW SLAVE STATUS.
func (s *MariaDBServer) slave(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	err := withDB("mysql", s.AdminDSN(""), func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "SHOW SLAVE STATUS")
		if err != nil {
			return err
		}
		defer rows.Close()
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			values := make([]any, len(names))
			for i := range values {
				values[i] = new(sql.NullString)
			}
			if err := rows.Scan(values...); err != nil {
				return err
			}
			for i, name := range names {
				out[name] = values[i].(*sql.NullString).String
			}
		}
		return rows.Err()
	})
	return out, err
}

// awaitSQL polls a server's state.
func awaitSQL(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited until %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}
