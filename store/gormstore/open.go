package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/model"
)

// connMaxLifetime ends connections to a server that was demoted: the name leads to another
// one, but an open connection never does.
const connMaxLifetime = 5 * time.Minute

// Store is the table of trans messages in one database. It is safe for concurrent use.
// The zero value is not usable; see [Open].
type Store struct {
	db      *sql.DB
	own     bool // the pool is ours: READ COMMITTED per connection
	d       *dialect
	opt     Options
	log     *slog.Logger
	label   string // names the server in errors
	maxBody int
	maria   bool // MariaDB, which knows @@in_transaction
	sql     statements
	inserts *coalescer[*unit]
	apart   *apart
	reads   *coalescer[*lookup]
	small   atomic.Bool // no row of the last claim was above smallContent
	// prepared is what inserts use, where it can.
	prepared prepared
}

// Open opens a store on the database of src and checks that it answers, is new enough and
// strict, and has the schema. ctx ends Open alone. Errors name the server and never contain
// the password. Call [Store.Close].
//
// With a pool of its own (the function DSN of the dialects' packages) every connection to a
// server is READ COMMITTED, commits each statement by itself, waits a second for a lock, and
// is closed after five minutes.
//
// A caller's pool (SQL and Gorm) keeps its settings: the isolation level is set per
// transaction, never per session. Locks are waited for as long as the pool's sessions say: an
// id that somebody holds locked may delay others for that time. A pool that the caller's own
// open transactions can exhaust makes Publish wait for its context: prefer an own one.
// PostgreSQL wants pgx's driver, gorm's default.
func Open(ctx context.Context, src Source, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("gormstore: open: %w", err)
	}
	if err := src.Err(); err != nil {
		return nil, fmt.Errorf("gormstore: open: %w", err)
	}
	s, err := src.store(o)
	if err != nil {
		return nil, fmt.Errorf("gormstore: open: %s: %w", src.label, err)
	}
	if err := s.start(ctx); err != nil {
		if s.own {
			err = errors.Join(err, s.db.Close())
		}
		return nil, err
	}
	return s, nil
}

// store makes the pool where it is our own, and asks the server nothing.
func (src Source) store(o Options) (*Store, error) {
	if src.own == nil {
		if o.TLS != nil || o.Credentials != nil {
			return nil, errors.New("options: TLS and Credentials are for an own pool; this one is the caller's")
		}
		return newStore(src.pool, newDialect(src.driver), o, src.label), nil
	}
	db, err := src.own(o)
	if err != nil {
		return nil, err
	}
	if src.driver.Dialect == dialectSQLite {
		o.MaxOpenConns = 1 // one writer; and an in-memory database is its connection
	} else {
		db.SetConnMaxLifetime(connMaxLifetime)
	}
	db.SetMaxOpenConns(o.MaxOpenConns)
	db.SetMaxIdleConns(o.MaxOpenConns)
	s := newStore(db, newDialect(src.driver), o, src.label)
	s.own = true
	return s, nil
}

func newStore(db *sql.DB, d *dialect, o Options, label string) *Store {
	s := &Store{db: db, d: d, opt: o, log: o.Logger, label: label, maxBody: math.MaxInt}
	s.sql = newStatements(d, o.Prefix)
	s.inserts = newCoalescer(s.takeUnits, s.storeUnits)
	s.apart = newApart(o.MaxOpenConns)
	s.reads = newCoalescer(s.takeLookups, s.runLookups)
	return s
}

// start asks the server what the store must know.
func (s *Store) start(ctx context.Context) error {
	if err := s.checkServer(ctx); err != nil {
		return s.wrap("open", err)
	}
	if s.opt.SkipSchemaCheck {
		return nil
	}
	return s.CheckSchema(ctx)
}

// Close waits for inserts and reads that run or wait, and closes a pool of
// its own. Calls made after it get [model.ErrClosed]. Calling it twice is harmless.
func (s *Store) Close() error {
	s.inserts.close()
	s.apart.wg.Wait() // only the inserts before add to it
	s.reads.close()
	s.prepared.close()
	if !s.own {
		return nil
	}
	return s.db.Close()
}

// Pool returns the pool that the store uses, for migrations and for those who look at the
// tables by SQL. It is the store's to close, unless it is the caller's.
func (s *Store) Pool() *sql.DB { return s.db }

// Prefix is what stands before every table's name.
func (s *Store) Prefix() string { return s.opt.Prefix }

// Dialect returns "mysql" (MariaDB too), "postgres" or "sqlite".
func (s *Store) Dialect() string { return s.d.name }

// Label names the database for people, such as "mysql 127.0.0.1:3306/shop". It holds no secret.
func (s *Store) Label() string { return s.label }

// MaxBody returns the largest body in bytes that fits into one statement of this
// database: a quarter of MySQL's max_allowed_packet, since escaping can double it;
// math.MaxInt where nothing bounds it below the row's own limit of 1 GB.
func (s *Store) MaxBody() int { return s.maxBody }

// Now returns the database's clock in Unix milliseconds.
func (s *Store) Now(ctx context.Context) (int64, error) {
	var ms int64
	err := s.db.QueryRowContext(ctx, "SELECT "+s.d.now).Scan(&ms)
	return ms, s.wrap("read the clock", err)
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.wrap("ping", s.db.PingContext(ctx)) }

// evictReadOnly drops the idle connections after an answer that the server is read
// only: after a failover the name may lead to another server, but an open connection
// never does. The one that got the answer has just become idle.
func (s *Store) evictReadOnly(err error) {
	switch {
	case s.d.name == dialectSQLite || s.d.classify(err) != classReadOnly:
	case s.own:
		s.db.SetMaxIdleConns(-1)
		s.db.SetMaxIdleConns(s.opt.MaxOpenConns)
	default:
		s.closeIdle()
	}
}

// closeIdle closes the idle connections of a caller's pool, whose settings stay as they are.
func (s *Store) closeIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var idle []*sql.Conn
	for range s.db.Stats().Idle {
		if s.db.Stats().Idle == 0 { // others use them
			break
		}
		conn, err := s.db.Conn(ctx)
		if err != nil {
			break // nothing that is idle any more, or the server is away: then they are broken anyway
		}
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it instead of handing it back
		_ = conn.Close()
	}
}

var errClosed = &model.StoreError{Kind: model.ErrNotStored, Err: model.ErrClosed}
