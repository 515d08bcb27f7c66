package gormstore

import (
	"database/sql"
	"errors"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// scanner is *sql.Row or *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// scanRow reads rowColumns, and more where the query asks for more.
func scanRow(r scanner, t *model.TransMessage, more ...any) error {
	return r.Scan(append([]any{
		&t.ID, &t.Service, &t.Status, &t.NextAttemptAt, &t.Attempts, &t.Failures, &t.Claims, &t.Version, &t.Epoch,
		&t.MessageKey, &t.Exchange, &t.RoutingKey, &t.Properties, &t.Size, &t.LastCode, &t.LastError, &t.ClaimedBy,
		&t.CreatedAt, &t.UpdatedAt, &t.ReplayedAt, &t.FirstFailedAt, &t.LoneClaims, &t.LoneSince,
		&t.Closes, &t.ClosesSince, &t.NotBefore,
	}, more...)...)
}

// collect reads all rows with scan and closes them.
func collect[T any](rows *sql.Rows, err error, scan func(scanner, *T) error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	var out []T
	for rows.Next() {
		var v T
		if err = scan(rows, &v); err != nil {
			break
		}
		out = append(out, v)
	}
	return out, closeRows(rows, err)
}

// closeRows ends a result and returns the first error of reading it.
func closeRows(rows *sql.Rows, err error) error {
	if err == nil {
		err = rows.Err()
	}
	return errors.Join(err, rows.Close())
}

// sortedIDs returns the ids sorted and each once: locks are taken in one order.
func sortedIDs(ids []string) []string {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}
