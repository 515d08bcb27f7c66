package gormstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// Identity names the tables of this store, by what the database itself says: processes
// that reach them by other names of the host agree on it, and those of another server,
// database, schema or prefix have another. It is 16 hexadecimal digits, and no secret. After
// a failover of MySQL or MariaDB to another server it is that server's.
func (s *Store) Identity(ctx context.Context) (string, error) {
	parts := []string{s.d.name, s.opt.Prefix}
	for _, query := range s.identityQueries() {
		var part sql.NullString
		if err := s.db.QueryRowContext(ctx, query).Scan(&part); err != nil {
			return "", s.wrap("read the identity", err)
		}
		parts = append(parts, part.String)
	}
	if s.d.name == dialectSQLite { // a file has its machine's name and its own
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("gormstore: read the identity: %w", err)
		}
		parts = append(parts, host)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8]), nil
}

// identityQueries have one value each: the server, the database, and when the first migration
// ran, since servers in containers have equal names.
func (s *Store) identityQueries() []string {
	first := func(seconds string) string { return "SELECT " + seconds + " FROM " + s.sql.version }
	switch s.d.name {
	case dialectMySQL:
		server := "SELECT @@server_uuid"
		if s.maria {
			server = "SELECT CONCAT(@@hostname, ':', @@port)"
		}
		return []string{server, "SELECT DATABASE()", first("UNIX_TIMESTAMP(MIN(tstamp))")}
	case dialectPostgres:
		return []string{
			"SELECT CAST(system_identifier AS text) FROM pg_control_system()",
			"SELECT current_database() || '/' || current_schema()",
			first("CAST(EXTRACT(EPOCH FROM MIN(tstamp)) AS text)"),
		}
	default:
		return []string{"SELECT file FROM pragma_database_list WHERE name = 'main'", first("MIN(tstamp)")}
	}
}
