package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// packetShare is the part of max_allowed_packet that row data may fill: interpolation
// can double binary data, and the statement's own text needs room.
const packetShare = 4

// checkServer refuses servers that the store would lose messages on.
func (s *Store) checkServer(ctx context.Context) error {
	switch s.d.name {
	case dialectMySQL:
		return s.checkMySQL(ctx)
	case dialectPostgres:
		return s.checkPostgres(ctx)
	}
	return s.db.PingContext(ctx)
}

func (s *Store) checkMySQL(ctx context.Context) error {
	var version, mode string
	var packet int
	var autocommit bool
	var charsets [3]sql.NullString
	err := s.db.QueryRowContext(ctx, "SELECT VERSION(), @@SESSION.sql_mode, @@GLOBAL.max_allowed_packet, "+
		"@@SESSION.autocommit, @@SESSION.character_set_client, @@SESSION.character_set_connection, "+
		"@@SESSION.character_set_results").Scan(&version, &mode, &packet, &autocommit,
		&charsets[0], &charsets[1], &charsets[2])
	if err != nil {
		return err
	}
	name, major, minor := "MySQL", 8, 0
	if strings.Contains(version, "MariaDB") {
		name, major, minor = "MariaDB", 10, 6
		s.maria = true
	}
	if !versionAtLeast(version, major, minor) {
		return fmt.Errorf("server version %s is too old: %s %d.%d or newer is needed (SKIP LOCKED)",
			version, name, major, minor)
	}
	if !strings.Contains(mode, "STRICT_TRANS_TABLES") && !strings.Contains(mode, "STRICT_ALL_TABLES") {
		return fmt.Errorf("sql_mode %q is not strict: the server would cut values silently; "+
			"add STRICT_TRANS_TABLES to sql_mode", mode)
	}
	if !autocommit { // a caller's pool; the own one sets it
		return errors.New("autocommit is 0: what Publish stores would be rolled back; remove autocommit=0 " +
			"from the pool's dsn, or from init_connect or the configuration of the server")
	}
	s.maxBody = packet / packetShare
	if err := checkCharsets(charsets); err != nil {
		return err
	}
	return s.checkBinlog(ctx)
}

// checkCharsets refuses a session that takes or gives text in another character set than the
// columns': names and keys would be other ones when they are stored, or read back.
func checkCharsets(have [3]sql.NullString) error {
	for i, variable := range []string{"client", "connection", "results"} {
		if have[i].String != "utf8mb4" {
			return fmt.Errorf("character_set_%s is %q: exchanges, keys and services would be altered; set "+
				"charset=utf8mb4 in the pool's dsn, or look at init_connect and character-set-client-handshake "+
				"of the server", variable, have[i].String)
		}
	}
	return nil
}

func (s *Store) checkPostgres(ctx context.Context) error {
	if check := s.d.driver.Check; check != nil && !s.own {
		if err := check(ctx, s.db); err != nil {
			return err
		}
	}
	var version, client, server string
	if err := s.db.QueryRowContext(ctx, "SELECT current_setting('server_version_num'), "+
		"current_setting('client_encoding'), current_setting('server_encoding')",
	).Scan(&version, &client, &server); err != nil {
		return err
	}
	if n, err := strconv.Atoi(version); err != nil || n < 130000 {
		return fmt.Errorf("server version number %s is too old: PostgreSQL 13 or newer is needed", version)
	}
	if client != "UTF8" { // a caller's pool; the own one sets it
		return fmt.Errorf("client_encoding is %s: exchanges, keys and services would be altered; remove "+
			"client_encoding from the pool's dsn and PGCLIENTENCODING, or set it to UTF8", client)
	}
	if server != "UTF8" {
		return fmt.Errorf("the database's encoding is %s: texts that it does not know could not be stored; "+
			"make a database with ENCODING 'UTF8'", server)
	}
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT cardinality($1::text[])", []string{"a", "b"}).Scan(&n)
	if err == nil && n != 2 {
		err = fmt.Errorf("got %d elements for 2", n)
	}
	if err != nil {
		return fmt.Errorf("the pool's driver does not take arrays, use pgx's: %w", err)
	}
	return nil
}

// versionAtLeast reads "10.11.19-MariaDB-..." or "8.0.36".
func versionAtLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}
