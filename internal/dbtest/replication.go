package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// binlogFlags let a server be a primary and a replica, with global transaction ids.
func (s *MariaDBServer) binlogFlags() []string {
	switch {
	case s.options.ServerID == 0:
		return nil
	case s.oracle:
		return []string{
			fmt.Sprintf("--server-id=%d", s.options.ServerID), "--log-bin=binlog", "--relay-log=relay",
			"--gtid-mode=ON", "--enforce-gtid-consistency=ON",
		}
	}
	flags := []string{
		fmt.Sprintf("--server-id=%d", s.options.ServerID), "--log-bin=binlog", "--relay-log=relay",
		"--log-slave-updates=ON", "--sync-binlog=1",
	}
	if s.options.SemiSync {
		flags = append(flags, semiSync()...)
	}
	return flags
}

// Follow makes the server a replica of another one, from the primary's present end on, and
// delay behind it. Neither may have transactions of its own that the other needs. Both have
// a ServerID.
func (s *MariaDBServer) Follow(ctx context.Context, primary *MariaDBServer, delay time.Duration) error {
	if s.oracle {
		const reset = "RESET BINARY LOGS AND GTIDS"
		if err := primary.Exec(ctx, reset); err != nil {
			return err
		}
		return s.Exec(ctx, reset, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', "+
			"SOURCE_PORT = %d, SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1, SOURCE_DELAY = %d, "+
			"SOURCE_CONNECT_RETRY = 1", primary.Port(), int(delay.Seconds())), "START REPLICA")
	}
	var position string
	if err := withDB("mysql", primary.AdminDSN(""), func(db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT @@gtid_binlog_pos").Scan(&position)
	}); err != nil {
		return fmt.Errorf("private mariadb: position of the primary: %w", err)
	}
	return s.Exec(ctx, "RESET MASTER", "SET GLOBAL gtid_slave_pos = '"+position+"'",
		primary.changeMaster(delay), "START SLAVE")
}

// changeMaster is MariaDB's statement that makes another server follow this one.
func (s *MariaDBServer) changeMaster(delay time.Duration) string {
	return fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = 'root', "+
		"MASTER_USE_GTID = slave_pos, MASTER_DELAY = %d, MASTER_CONNECT_RETRY = 1", s.Port(), int(delay.Seconds()))
}
