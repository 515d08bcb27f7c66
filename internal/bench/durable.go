package bench

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// Setting is one setting of a server that decides whether a commit is on disk.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// rule says what a setting must be.
type rule struct {
	name  string
	query string
	// good are the accepted values, lower case; none means that it is only printed.
	good []string
}

// rules are asked in order. The binary log's flush counts only where there is a binary
// log.
func rules(kind string) []rule {
	switch kind {
	case kindMySQL:
		return []rule{
			{"version", "SELECT VERSION()", nil},
			{"innodb_flush_log_at_trx_commit", "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit", []string{"1"}},
			{
				"innodb_flush_method", "SELECT @@GLOBAL.innodb_flush_method",
				[]string{"fsync", "o_dsync", "o_direct", "o_direct_no_fsync", "unbuffered", "normal"},
			},
			{"innodb_doublewrite", "SELECT @@GLOBAL.innodb_doublewrite", []string{"1", "on", "detect_and_recover"}},
			{"log_bin", "SELECT @@GLOBAL.log_bin", nil},
			{"sync_binlog", "SELECT @@GLOBAL.sync_binlog", []string{"1"}},
		}
	case kindPostgres:
		return []rule{
			{"server_version", "SHOW server_version", nil},
			{"fsync", "SHOW fsync", []string{"on"}},
			{"synchronous_commit", "SHOW synchronous_commit", []string{"on", "local", "remote_write", "remote_apply"}},
			{"full_page_writes", "SHOW full_page_writes", []string{"on"}},
		}
	default:
		return []rule{
			{"sqlite_version", "SELECT sqlite_version()", nil},
			{"journal_mode", "PRAGMA journal_mode", []string{"wal", "delete", "truncate", "persist"}},
			{"synchronous", "PRAGMA synchronous", []string{"2", "3"}},
		}
	}
}

// durability reads the settings and refuses those with which a commit that was answered
// can be lost: figures taken on them are no figures.
func durability(ctx context.Context, kind string, db *sql.DB) ([]Setting, error) {
	var out []Setting
	for _, r := range rules(kind) {
		var v string
		if err := db.QueryRowContext(ctx, r.query).Scan(&v); err != nil {
			return nil, fmt.Errorf("read %s: %w", r.name, err)
		}
		out = append(out, Setting{Name: r.name, Value: v})
	}
	return out, judge(kind, out)
}

// judge refuses relaxed settings by name, value and what is wanted.
func judge(kind string, settings []Setting) error {
	values := map[string]string{}
	for _, s := range settings {
		values[s.Name] = strings.ToLower(s.Value)
	}
	noBinlog := slices.Contains([]string{"0", "off"}, values["log_bin"])
	for _, r := range rules(kind) {
		if r.name == "sync_binlog" && noBinlog {
			continue
		}
		if len(r.good) > 0 && !slices.Contains(r.good, values[r.name]) {
			return fmt.Errorf("%s is %s: a commit could be lost, so figures would prove nothing; set it to %s",
				r.name, values[r.name], strings.ToUpper(r.good[0]))
		}
	}
	return nil
}
