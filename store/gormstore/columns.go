package gormstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// column is a column as the migration files declare it.
type column struct {
	table, name, definition string
	// collation is what texts are compared by: the statements compare and join them, and a
	// table that was converted refuses that (1267), or finds rows by ids that are not theirs.
	// It is empty for what is no text.
	collation string
}

var (
	createTable = regexp.MustCompile(`(?s)CREATE TABLE IF NOT EXISTS (\S+) \(\n(.*?)\n\)`)
	declared    = regexp.MustCompile(`(?m)^ +([a-z_]+) +([A-Z]+\b.*?),?$`)
	collated    = regexp.MustCompile(`COLLATE "?([A-Za-z0-9_]+)"?`)
)

// columns are the text columns of the tables that the migrations make, from their files.
func (s *Store) columns() ([]column, error) {
	files, err := MigrationFiles(s.d.name, s.opt.Prefix)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var out []column
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		for _, table := range createTable.FindAllStringSubmatch(string(text), -1) {
			for _, line := range declared.FindAllStringSubmatch(table[2], -1) {
				if c := collated.FindStringSubmatch(line[2]); c != nil {
					out = append(out, column{table[1], line[1], line[2], c[1]})
				}
			}
		}
	}
	return out, nil
}

// checkColumns compares the text columns that the server shows with what the migrations
// made. What this user may not see it does not use either.
func (s *Store) checkColumns(ctx context.Context) error {
	where := map[string]string{dialectMySQL: "DATABASE()", dialectPostgres: "current_schema()"}[s.d.name]
	if where == "" {
		return nil // SQLite's collations are part of its columns and are never converted
	}
	wanted, err := s.columns()
	if err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT table_name, column_name, COALESCE(collation_name, 'default') "+
		"FROM information_schema.columns WHERE table_schema = "+where+
		" AND data_type IN ('char', 'varchar', 'text', 'character', 'character varying') "+
		"ORDER BY table_name, ordinal_position")
	if err != nil {
		return err
	}
	defer rows.Close()
	var wrong []column
	var have string
	for rows.Next() {
		var table, name, collation string
		if err := rows.Scan(&table, &name, &collation); err != nil {
			return err
		}
		i := slices.IndexFunc(wanted, func(c column) bool { return c.table == table && c.name == name })
		if i < 0 || wanted[i].collation == collation {
			continue
		}
		if len(wrong) == 0 {
			have = collation
		}
		wrong = append(wrong, wanted[i])
	}
	if err := rows.Err(); err != nil || len(wrong) == 0 {
		return err
	}
	first := wrong[0]
	return fmt.Errorf("column %s.%s has the collation %s, which must be %s, or outcomes cannot be written; run: %s",
		first.table, first.name, have, first.collation, s.mend(wrong))
}

// mend is the statement that gives the columns of the first one's table their definition
// back.
func (s *Store) mend(wrong []column) string {
	var changes []string
	for _, c := range wrong {
		switch {
		case c.table != wrong[0].table:
		case s.d.name == dialectMySQL:
			changes = append(changes, "MODIFY "+c.name+" "+c.definition)
		default:
			kind, _, _ := strings.Cut(c.definition, " ")
			changes = append(changes, "ALTER COLUMN "+c.name+" TYPE "+kind+` COLLATE "`+c.collation+`"`)
		}
	}
	return "ALTER TABLE " + wrong[0].table + " " + strings.Join(changes, ", ")
}

// checkBinlog refuses a server on which an InnoDB row can be inserted at the caller's
// isolation level and never be changed or deleted at ours (error 1665).
func (s *Store) checkBinlog(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, "SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format')")
	if err != nil {
		return err
	}
	defer rows.Close()
	settings := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		settings[name] = value
	}
	if settings["log_bin"] == "ON" && settings["binlog_format"] == "STATEMENT" {
		return errors.Join(rows.Err(), errors.New("binlog_format is STATEMENT: at READ COMMITTED the server refuses "+
			"every change (error 1665), so that confirmed rows could not be deleted; run: SET GLOBAL binlog_format = "+
			"'ROW', put it into the server's configuration, and connect anew"))
	}
	return rows.Err()
}
