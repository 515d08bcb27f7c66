package bench

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	// These bound the wait for the database before a timed run: on a server with other
	// clients the wait may have no end.
	restAtMost  = 2 * time.Second
	restQuickly = 100 * time.Millisecond
	// restHistory is the length of InnoDB's history from which it counts as idle.
	restHistory = 20
)

// Rest lets the process and the database clear away what the run before left, so that no
// contestant pays for another: it empties the heap and waits for InnoDB's purge, for
// two seconds at most (a tenth of one with Quick). Call it before each timed run, whoever's it is.
func (sc *Schema) Rest(ctx context.Context) {
	debug.FreeOSMemory()
	if sc.Kind != kindMySQL {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sc.rest)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		n, ok := sc.history(ctx)
		if !ok || n <= restHistory {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// history is the number of transactions not yet purged. MariaDB tells it as a status and
// MySQL as a metric, which its user may not be allowed to read.
func (sc *Schema) history(ctx context.Context) (n int, ok bool) {
	var name string
	err := sc.Pool.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'").Scan(&name, &n)
	if err == nil {
		return n, true
	}
	err = sc.Pool.QueryRowContext(ctx,
		"SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'").Scan(&n)
	return n, err == nil
}
