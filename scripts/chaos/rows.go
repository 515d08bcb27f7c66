package main

import (
	"context"
	"database/sql"
	"fmt"
)

// row is what is left of a message in the table.
type row struct{ id, status string }

func readRows(ctx context.Context, db *sql.DB) (out []row, err error) {
	rows, err := db.QueryContext(ctx, "SELECT id, status FROM trans_message")
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.id, &r.status); err != nil {
			return nil, fmt.Errorf("read the table: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// countReady counts what is still to be sent; patient rows that are never routable stay READY.
func countReady(ctx context.Context, db *sql.DB, patient bool) (n int, err error) {
	query := "SELECT COUNT(*) FROM trans_message WHERE status = 'READY'"
	if patient {
		query += " AND routing_key <> '" + routes()["n"].key + "'"
	}
	err = db.QueryRowContext(ctx, query).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count rows: %w", err)
	}
	return n, nil
}
