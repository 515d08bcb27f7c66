package gormstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/libtnb/sqlite"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// TestT3_AMigrationKilledBetweenStatementsRunsAgain kills the process that migrates after its
// first statement, its second, and so on, and has the next one go on.
func TestT3_AMigrationKilledBetweenStatementsRunsAgain(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, _ string) {
		kills, step := 0, 1
		if !strings.HasSuffix(t.Name(), "/mysql") {
			step = 2 // a migration is a transaction there, and each kill costs seconds of goose's retries
		}
		for after := 1; ; after += step {
			dsn := freshDSN(t)
			life := &life{left: int64(after)}
			s, err := onPool(t.Context(), mortal(t, dsn, life), gormstore.Options{SkipSchemaCheck: true})
			if err != nil {
				t.Fatal(err)
			}
			life.running.Store(true)
			_, err = migrations.Up(t.Context(), s)
			if err == nil {
				break
			}
			kills++
			expectWhole(t, after, unchecked(t, dsn, gormstore.Options{}))
		}
		if kills < 6 {
			t.Fatalf("only %d kills: the statements are not counted", kills)
		}
	})
}

// expectWhole migrates and expects all versions once, and a store that works.
func expectWhole(t *testing.T, after int, s *gormstore.Store) {
	t.Helper()
	if _, err := migrations.Up(t.Context(), s); err != nil {
		t.Fatalf("killed after statement %d: %v", after, err)
	}
	all, err := migrations.Status(t.Context(), s)
	if err != nil || slices.ContainsFunc(all, func(m migrations.Migration) bool { return !m.Applied }) {
		t.Errorf("killed after statement %d: %v, %v", after, all, err)
	}
	var rows int
	row := s.Pool().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM transmsg_schema_version")
	if err := row.Scan(&rows); err != nil || rows != len(all)+1 { // version 0 is the table's own
		t.Errorf("killed after statement %d: %d version rows, want %d (%v)", after, rows, len(all)+1, err)
	}
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := s.Insert(t.Context(), batch(2)); err != nil || len(got) != 2 || got[0] != model.StoredNew {
		t.Errorf("killed after statement %d: insert: %v, %v", after, got, err)
	}
}

// TestT3_TenFirstStartsAtOnce has every one of ten processes make the schema.
func TestT3_TenFirstStartsAtOnce(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		var stores []*gormstore.Store
		for range 10 {
			stores = append(stores, unchecked(t, dsn, gormstore.Options{}))
		}
		var wg sync.WaitGroup
		var applied atomic.Int64
		for _, s := range stores {
			wg.Go(func() {
				done, err := migrations.Up(t.Context(), s)
				if err != nil {
					t.Error(err)
				}
				applied.Add(int64(len(done)))
			})
		}
		wg.Wait()
		all, err := migrations.Status(t.Context(), stores[0])
		if err != nil || int(applied.Load()) < len(all) {
			t.Errorf("%d applied of %d: %v", applied.Load(), len(all), err)
		}
		expectWhole(t, 0, stores[0])
	})
}

// TestT3_TheFirstCauseIsShown has a user that may create tables and not write them.
func TestT3_TheFirstCauseIsShown(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MySQL(t)
	admin := unchecked(t, dsn, gormstore.Options{})
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User = "maker_" + cfg.DBName[len(cfg.DBName)-8:]
	exec := func(statement string) {
		if _, err := admin.Pool().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE USER " + cfg.User)
	t.Cleanup(func() { _, _ = admin.Pool().ExecContext(context.WithoutCancel(t.Context()), "DROP USER "+cfg.User) })
	exec("GRANT CREATE, ALTER, INDEX, SELECT ON " + cfg.DBName + ".* TO " + cfg.User)
	limited := unchecked(t, cfg.FormatDSN(), gormstore.Options{})
	for range 2 {
		_, err := migrations.Up(t.Context(), limited)
		if err == nil || !strings.Contains(err.Error(), "INSERT command denied") {
			t.Fatalf("got %v, want the server's refusal of the INSERT", err)
		}
	}
	exec("GRANT INSERT, UPDATE, DELETE ON " + cfg.DBName + ".* TO " + cfg.User)
	expectWhole(t, 0, unchecked(t, cfg.FormatDSN(), gormstore.Options{})) // rights are read at log-in
}

// freshDSN is a database of the server that the subtest is named after.
func freshDSN(t *testing.T) string {
	t.Helper()
	for _, server := range servers {
		if strings.HasSuffix(t.Name(), "/"+server.name) {
			return server.dsn(t)
		}
	}
	t.Fatal("no server is named " + t.Name())
	return ""
}

// life is what a process has left: statements, and then nothing it does reaches the server.
type life struct {
	running atomic.Bool
	left    int64
}

var errKilled = errors.New("the process was killed")

func (l *life) spend() error {
	if l.running.Load() && atomic.AddInt64(&l.left, -1) < 0 {
		return errKilled
	}
	return nil
}

// mortal is a gorm handle whose connections end with the life.
func mortal(t *testing.T, dsn string, l *life) *gorm.DB {
	t.Helper()
	wrap := func(driverName, dsn string) *sql.DB {
		db, err := sql.Open(driverName, dsn)
		if err != nil {
			t.Fatal(err)
		}
		d := db.Driver()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return sql.OpenDB(mortalConnector{d, dsn, l})
	}
	switch {
	case strings.HasPrefix(dsn, "sqlite:"):
		pool := wrap(sqlite.DriverName, strings.TrimPrefix(dsn, "sqlite:")+"?_pragma=busy_timeout(5000)")
		pool.SetMaxOpenConns(1)
		return callersPool(t, &sqlite.Dialector{Conn: pool})
	case strings.HasPrefix(dsn, "postgres"):
		return callersPool(t, gormpostgres.New(gormpostgres.Config{Conn: wrap("pgx", dsn)}))
	default:
		return callersPool(t, gormmysql.New(gormmysql.Config{Conn: wrap("mysql", dsn)}))
	}
}

type mortalConnector struct {
	driver driver.Driver
	dsn    string
	life   *life
}

func (c mortalConnector) Driver() driver.Driver { return c.driver }

func (c mortalConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &mortalConn{Conn: conn, life: c.life}, nil
}

// mortalConn counts the statements of a connection; the one that is one too many finds the
// connection closed, so that the server rolls back what was open.
type mortalConn struct {
	driver.Conn
	life *life
	once sync.Once
}

func (c *mortalConn) spend() error {
	err := c.life.spend()
	if err != nil {
		_ = c.Close()
	}
	return err
}

func (c *mortalConn) Close() (err error) {
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}

func (c *mortalConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.spend(); err != nil {
		return nil, err
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, q, args)
}

func (c *mortalConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.spend(); err != nil {
		return nil, err
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, q, args)
}

func (c *mortalConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.spend(); err != nil {
		return nil, err
	}
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return mortalTx{tx, c}, err
}

func (c *mortalConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type mortalTx struct {
	driver.Tx
	conn *mortalConn
}

func (tx mortalTx) Commit() error {
	if err := tx.conn.spend(); err != nil {
		return err
	}
	return tx.Tx.Commit()
}

func (tx mortalTx) Rollback() error {
	if err := tx.conn.spend(); err != nil {
		return err
	}
	return tx.Tx.Rollback()
}
