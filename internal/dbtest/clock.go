package dbtest

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// SkewMySQL returns dsn with a clock that is ahead of this process's by so much, or behind
// where it is negative. On each of its connections time stands still: nothing there that
// is leased ends.
func SkewMySQL(dsn string, by time.Duration) string {
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	at := float64(time.Now().Add(by).UnixMilli()) / 1000
	return dsn + sep + "timestamp=" + strconv.FormatFloat(at, 'f', 3, 64)
}

// SkewPostgres gives the database of dsn a clock that is ahead of this process's by so much,
// or behind, for those who connect with the URL that it returns. Call it again, also while
// they are connected, and the clock steps.
func SkewPostgres(ctx context.Context, dsn string, by time.Duration) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", errBadDSN // it may hold a password
	}
	// A function of another schema is found before the server's own only where pg_catalog is
	// named behind that schema.
	err = execSQL(ctx, "pgx", dsn, "CREATE SCHEMA IF NOT EXISTS skewed; "+
		"CREATE OR REPLACE FUNCTION skewed.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS "+
		fmt.Sprintf("'SELECT pg_catalog.clock_timestamp() + make_interval(secs => %f)'", by.Seconds()))
	if err != nil {
		return "", fmt.Errorf("skew the clock: %w", err)
	}
	q := u.Query()
	q.Set("search_path", "public,skewed,pg_catalog")
	u.RawQuery = q.Encode()
	return u.String(), nil
}
