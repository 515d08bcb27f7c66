package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/model"
)

// insertTries bounds how often one shared INSERT is made again after a duplicate was
// resolved or rivals undid it.
const insertTries = 10

// unit is one call of Insert: stored as a whole or not at all.
type unit struct {
	rows []model.Draft
	// found has a result per row; zero means still to insert.
	found []model.Stored
	bytes int
	err   error
	done  chan struct{} // closed when found or err is final
	// unsure says that an INSERT of it had an unknown result: no later refusal is certain then.
	unsure bool
	gone   atomic.Bool // its caller has stopped waiting
	one    [1]model.Stored
}

// Insert stores the rows of one call, all or none, and says for each what it found. Of a
// draft the id, epoch, service, content, size, ClaimedBy, Delay and NotBefore are used; the row becomes
// READY with all counts zero. Concurrent calls share multi-row INSERTs: what arrives while one
// statement runs goes into the next, without any linger. A row that is refused never
// fails another call's rows.
//
// A nil error with StoredDead or StoredOther among the results means that nothing of
// this call was stored; rows that would have been new then have the zero result.
// Otherwise every row is StoredNew or StoredBefore and committed.
//
// The error is a [*model.StoreError]: [model.ErrNotStored] is certain (also with
// [model.ErrClosed]), [model.ErrStoreUnknown] means repeat with the same ids. ctx ends
// the wait only: while the call still waits for its turn nothing is stored, and once its
// statement runs the result is unknown. After a result that is unknown for another reason,
// such as a connection that broke, the INSERT is made again until the deadline. The rows
// must not be changed after such an error, since the statement still reads them.
func (s *Store) Insert(ctx context.Context, rows []model.Draft) ([]model.Stored, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, s.storeError(idsOf(rows), notSentError{err})
	}
	u := &unit{rows: rows, done: make(chan struct{})}
	if len(rows) == 1 {
		u.found = u.one[:]
	} else {
		u.found = make([]model.Stored, len(rows))
		if markRepeats(u) {
			return u.found, nil
		}
	}
	for i := range rows {
		if n := len(rows[i].Payload); n > s.maxBody {
			return nil, s.storeError([]string{rows[i].ID}, notSentError{fmt.Errorf(
				"body of %d bytes is above %d, a quarter of the server's max_allowed_packet", n, s.maxBody)})
		}
		u.bytes += rowBytes(&rows[i])
	}
	if !s.inserts.add(u) {
		return nil, errClosed
	}
	select {
	case <-u.done:
		return u.found, u.err
	case <-ctx.Done():
	}
	if s.inserts.remove(u) {
		return nil, s.storeError(idsOf(rows), notSentError{ctx.Err()})
	}
	select {
	case <-u.done: // both at once: the known result wins
		return u.found, u.err
	default:
		u.gone.Store(true)
		return nil, s.storeError(idsOf(rows), ctx.Err())
	}
}

// markRepeats gives every repeat of an id within one call its result: the same message
// is stored once. It reports whether a repeat has other content, so that nothing is.
func markRepeats(u *unit) (conflict bool) {
	first := make(map[string]int, len(u.rows))
	for i := range u.rows {
		j, seen := first[u.rows[i].ID]
		switch {
		case !seen:
			first[u.rows[i].ID] = i
		case model.SameContent(&u.rows[j].TransMessage, &u.rows[i].TransMessage):
			u.found[i] = model.StoredBefore
		default:
			u.found[i], conflict = model.StoredOther, true
		}
	}
	return conflict
}

// sharedBytes bounds the row data of an INSERT of several calls. The MySQL driver grows its
// buffer by a quarter and keeps it up to 256 KiB: a statement that needs more than four fifths
// of that may never fit into what is kept, and is then built in new memory each time, which was
// a third of all that publishing takes.
const sharedBytes = 200 << 10

// takeUnits bounds a batch by rows and bytes; a unit above them goes alone. Single rows
// make a batch of one of few sizes; what is left goes first into the next.
func (s *Store) takeUnits(queue []*unit) int {
	n, rows, size := 0, 0, 0
	for _, u := range queue {
		rows, size = rows+len(u.rows), size+u.bytes
		if n > 0 && (rows > maxRows || size > min(s.batchBytes(), sharedBytes)) {
			rows -= len(u.rows)
			break
		}
		n++
	}
	if rows == n {
		return wholeBatch(n)
	}
	return n
}

func (s *Store) batchBytes() int { return min(maxBytes, s.maxBody) }

// storeUnits runs a batch under its own deadline.
func (s *Store) storeUnits(units []*unit) {
	ctx, cancel := context.WithTimeout(context.Background(), s.opt.InsertTimeout)
	defer cancel()
	s.insertUnits(ctx, units)
}

// insertUnits finishes every unit, or sets it apart. Those whose id another unit of the same batch inserts
// go through a second round.
func (s *Store) insertUnits(ctx context.Context, units []*unit) {
	for len(units) > 0 {
		units = s.insertRound(ctx, units)
	}
}

// insertRound finishes every unit, or sets it apart, but those it returns. The statement is a plain INSERT,
// which is refused as a whole by any duplicate: only then are the existing rows read and
// the units told apart. That is cheaper than asking for duplicates every time, needs no
// transaction for all-or-none, and is the same on all servers.
func (s *Store) insertRound(ctx context.Context, units []*unit) (later []*unit) {
	refused := 1
	for try := 1; len(units) > 0; try++ {
		err := s.insertRows(ctx, units)
		if err == nil {
			finish(units)
			return later
		}
		switch c := s.d.classify(err); {
		case c == classData && len(units) > 1:
			// One of them holds a bad value; halving finds it in few statements.
			half := len(units) / 2
			s.insertUnits(ctx, units[:half])
			s.insertUnits(ctx, units[half:])
			return later
		case c == classBusy:
			s.setApart(ctx, units, err)
			return later
		case s.unclear(units, c) && pause(ctx, try) == nil:
			if units = s.waiting(units, err); len(units) == 0 {
				return later
			}
		case c == classRetry && refused < insertTries && pause(ctx, refused) == nil:
			refused++
		case c == classDuplicate && refused < insertTries:
			refused++
			now, wait, err := s.resolve(ctx, units)
			if err != nil {
				s.fail(units, notSentError{err})
				return later
			}
			units, later = now, append(later, wait...)
		default:
			s.fail(units, err)
			return later
		}
	}
	return later
}

// unclear reports whether an INSERT of these units is to be made again to learn what became
// of it: its own result is unknown, or that of an earlier one is and the server is away.
func (s *Store) unclear(units []*unit, c class) bool {
	away := c == classNotSent || c == classReadOnly
	return c == classUnknown || away && slices.ContainsFunc(units, func(u *unit) bool { return u.unsure })
}

// waiting marks units whose INSERT had an unknown result, err, and returns those whose callers
// still wait. Their INSERT is made again as long as there is time: a row that was stored is
// found as a duplicate, and its content says that it is the same. The deadline bounds that.
func (s *Store) waiting(units []*unit, err error) (still []*unit) {
	s.evictReadOnly(err)
	for _, u := range units {
		u.unsure = true
		if u.gone.Load() {
			s.fail([]*unit{u}, err)
			continue
		}
		still = append(still, u)
	}
	return still
}

// finish tells the units' callers. Rows without a result were stored now.
func finish(units []*unit) {
	for _, u := range units {
		for i, f := range u.found {
			if f == 0 {
				u.found[i] = model.StoredNew
			}
		}
		close(u.done)
	}
}

func (s *Store) fail(units []*unit, err error) {
	for _, u := range units {
		cause := err
		if u.unsure {
			cause = unknownError{err}
		}
		u.found, u.err = nil, s.storeError(idsOf(u.rows), cause)
		close(u.done)
	}
}

// insertRows stores what the units still have to insert: one statement, or above its
// bounds one transaction of several.
func (s *Store) insertRows(ctx context.Context, units []*unit) error {
	rows := make([]*model.Draft, 0, len(units))
	size := 0
	for _, u := range units {
		for i := range u.rows {
			if u.found[i] == 0 {
				rows = append(rows, &u.rows[i])
				size += rowBytes(&u.rows[i])
			}
		}
	}
	if len(rows) <= maxRows && (size <= s.batchBytes() || len(rows) == 1) {
		query, args := s.sql.insertText(s.d, len(rows)), s.insertArgs(rows)
		if ok, err := s.execPrepared(ctx, len(rows), query, args); ok {
			return err
		}
		return s.execOnce(ctx, query, args)
	}
	return s.insertChunks(ctx, rows)
}

func (s *Store) insertChunks(ctx context.Context, rows []*model.Draft) error {
	return s.tryTx(ctx, func(tx dbTx) error {
		for len(rows) > 0 {
			n := s.chunk(rows)
			if _, err := tx.ExecContext(ctx, s.sql.insertText(s.d, n), s.insertArgs(rows[:n])...); err != nil {
				return err
			}
			rows = rows[n:]
		}
		return nil
	})
}

// chunk is how many of the first rows fit into one statement.
func (s *Store) chunk(rows []*model.Draft) int {
	size := 0
	for i, r := range rows {
		if size += rowBytes(r); i > 0 && (i == maxRows || size > s.batchBytes()) {
			return i
		}
	}
	return len(rows)
}

// execOnce runs one statement that must not run twice. It takes its connection first, so
// that a refused or late connection is certain to have stored nothing, and tries again
// only on driver.ErrBadConn, which drivers return while nothing has been sent.
func (s *Store) execOnce(ctx context.Context, query string, args []any) error {
	for try := 0; ; try++ {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return notSentError{err}
		}
		_, err = conn.ExecContext(ctx, query, args...)
		_ = conn.Close() // hands it back to the pool; the error of a broken one is err
		if err == nil || !errors.Is(err, driver.ErrBadConn) || try > s.opt.MaxOpenConns {
			return err
		}
	}
}

// txOptions is READ COMMITTED on a caller's pool; the own pool's connections have it.
func (s *Store) txOptions() *sql.TxOptions {
	if s.own || s.d.name == dialectSQLite {
		return nil
	}
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

// pause waits before the next try, longer each time, with jitter so that rivals part.
func pause(ctx context.Context, try int) error {
	const base, top = 2 * time.Millisecond, 200 * time.Millisecond
	d := min(base<<min(try, 8), top)
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// insertArgs are the parameters of insertText.
func (s *Store) insertArgs(rows []*model.Draft) []any {
	if s.d.dollar {
		return insertArrays(rows)
	}
	args := make([]any, 0, len(rows)*insertParams)
	for _, r := range rows {
		args = appendRowArgs(args, r)
	}
	return args
}

func appendRowArgs(args []any, r *model.Draft) []any {
	return append(args, r.ID, r.Service, r.MessageKey, r.Exchange, r.RoutingKey,
		blob(r.Properties), blob(r.Payload), int64(r.Size), int64(r.Epoch), delayMS(r.Delay), r.NotBefore,
		r.NotBefore, r.ClaimedBy)
}

// insertArrays are the columns of the rows, for unnest, and last their bodies as one value of
// which each row takes its part. An array of bodies the driver writes element by element
// into buffers that grow, which allocated 7 KiB for each of 1 KiB.
func insertArrays(rows []*model.Draft) []any {
	n := len(rows)
	texts := make([]string, 6*n)
	id, service, key := texts[:n:n], texts[n:2*n:2*n], texts[2*n:3*n:3*n]
	exchange, routing, instance := texts[3*n:4*n:4*n], texts[4*n:5*n:5*n], texts[5*n:]
	ints := make([]int32, 4*n)
	size, epoch, first, length := ints[:n:n], ints[n:2*n:2*n], ints[2*n:3*n:3*n], ints[3*n:]
	properties, delay, notBefore := make([][]byte, n), make([]int64, n), make([]int64, n)
	all := 0
	for _, r := range rows {
		all += len(r.Payload)
	}
	bodies := make([]byte, 0, all)
	for i, r := range rows {
		id[i], service[i], key[i] = r.ID, r.Service, r.MessageKey
		exchange[i], routing[i], instance[i] = r.Exchange, r.RoutingKey, r.ClaimedBy
		properties[i] = blob(r.Properties)
		size[i], epoch[i], delay[i] = int32(r.Size), int32(r.Epoch), delayMS(r.Delay)
		notBefore[i] = r.NotBefore
		first[i], length[i] = int32(len(bodies)+1), int32(len(r.Payload))
		bodies = append(bodies, r.Payload...)
	}
	return []any{
		id, service, key, exchange, routing, properties, size, epoch, delay, instance, first, length, notBefore, bodies,
	}
}

// blob keeps an empty body from becoming NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// delayMS is a delay in whole milliseconds, rounded up; negative counts as zero. The longest
// duration, 292 years, added to any date still fits into the column.
func delayMS(d time.Duration) int64 {
	return model.DurationToMillis(d)
}

// rowBytes is the data of one row in a statement.
func rowBytes(r *model.Draft) int {
	const fixed = 128
	return fixed + len(r.Payload) + len(r.Properties) + len(r.MessageKey) + len(r.Exchange) + len(r.RoutingKey)
}

func idsOf(rows []model.Draft) []string {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}
