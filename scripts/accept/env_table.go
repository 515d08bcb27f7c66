package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	"github.com/libtnb/sqlite"
)

// table looks at the product's tables by raw SQL on a pool of its own.
type table struct {
	db      *sql.DB
	dialect string
}

// row is what a check asks about a stored message.
type row struct {
	ID, Status, Exchange, Key, Code string
	Attempts, Failures, Version     int
}

func openTable(dialect, dsn string) (*table, error) {
	driver := map[string]string{"mysql": "mysql", "postgres": "pgx", "sqlite": sqlite.DriverName}[dialect]
	if dialect == "sqlite" {
		dsn = "file:" + (&url.URL{Path: dsn}).EscapedPath() + "?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, fmt.Errorf("open the database for looking: %w", err)
	}
	return &table{db: db, dialect: dialect}, nil
}

// rebind turns the placeholders ? into those of the dialect.
func (t *table) rebind(query string) string {
	if t.dialect != "postgres" {
		return query
	}
	var b strings.Builder
	n := 0
	for _, r := range query {
		if r == '?' {
			n++
			fmt.Fprintf(&b, "$%d", n)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (t *table) exec(ctx context.Context, query string, args ...any) error {
	if _, err := t.db.ExecContext(ctx, t.rebind(query), args...); err != nil {
		return fmt.Errorf("%.60s: %w", query, err)
	}
	return nil
}

// number returns the one number that query selects; NULL is 0.
func (t *table) number(ctx context.Context, query string, args ...any) (int, error) {
	var n sql.NullInt64
	if err := t.db.QueryRowContext(ctx, t.rebind(query), args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("%.60s: %w", query, err)
	}
	return int(n.Int64), nil
}

// count returns the number of stored messages for which the condition holds.
func (t *table) count(ctx context.Context, where string) (int, error) {
	return t.number(ctx, "SELECT COUNT(*) FROM trans_message WHERE "+where)
}

// empty is for until: no message is stored.
func (t *table) empty(ctx context.Context) (bool, error) {
	n, err := t.count(ctx, "1 = 1")
	return n == 0, err
}

// charged returns the ids of messages whose history has a counted attempt.
func (t *table) charged(ctx context.Context) ([]string, error) {
	return t.strings(ctx, "SELECT DISTINCT row_id FROM trans_message_event WHERE attempts > 0 ORDER BY row_id")
}

func (t *table) strings(ctx context.Context, query string, args ...any) ([]string, error) {
	found, err := t.db.QueryContext(ctx, t.rebind(query), args...)
	if err != nil {
		return nil, fmt.Errorf("%.60s: %w", query, err)
	}
	defer found.Close()
	var list []string
	for found.Next() {
		var s string
		if err := found.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, found.Err()
}

// rows returns every stored message by id.
func (t *table) rows(ctx context.Context) (map[string]row, error) {
	found, err := t.db.QueryContext(ctx, "SELECT id, status, exchange, routing_key, last_code, attempts, failures, "+
		"version FROM trans_message")
	if err != nil {
		return nil, fmt.Errorf("read the stored messages: %w", err)
	}
	defer found.Close()
	rows := map[string]row{}
	for found.Next() {
		var r row
		err := found.Scan(&r.ID, &r.Status, &r.Exchange, &r.Key, &r.Code, &r.Attempts, &r.Failures, &r.Version)
		if err != nil {
			return nil, fmt.Errorf("read the stored messages: %w", err)
		}
		rows[r.ID] = r
	}
	return rows, found.Err()
}
