package transmsgtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
	"github.com/transmsg/transmsg/transmsgtest"
)

// told is a test that can fail without failing this one.
type told struct {
	testing.TB
	errors []string
}

func (t *told) Error(args ...any) { t.errors = append(t.errors, fmt.Sprint(args...)) }

// Each call past the open transaction fails the test at once and names the right call, also
// with a context that knows nothing of the transaction, and though the handler drops the
// error. The order commits or not; it is the test that says what is wrong.
func TestH2_CallsPastTheTransactionFailTheTest(t *testing.T) {
	t.Parallel()
	elsewhere := context.Background() // a context that does not know of the transaction
	msg := model.Message{Exchange: "orders", RoutingKey: "order.placed"}
	for name, c := range map[string]struct {
		call func(env *transmsgtest.Env) error
		want string
	}{
		"publisher": {func(env *transmsgtest.Env) error {
			_, err := env.Publisher.Publish(elsewhere, msg)
			return err
		}, "use out.Publish"},
		"batch": {func(env *transmsgtest.Env) error {
			_, err := env.Publisher.PublishBatch(elsewhere, []model.Message{msg, msg})
			return err
		}, "use out.Publish"},
		"database": {func(env *transmsgtest.Env) error {
			_, err := env.DB.ExecContext(elsewhere, "INSERT INTO orders VALUES (1)")
			return err
		}, "a statement on the database"},
		"query": {func(env *transmsgtest.Env) error {
			var n int
			return env.DB.QueryRowContext(elsewhere, "SELECT COUNT(*) FROM orders").Scan(&n)
		}, "a statement on the database"},
		"gorm": {func(env *transmsgtest.Env) error {
			return env.Gorm.WithContext(elsewhere).Exec("INSERT INTO orders VALUES (1)").Error
		}, "a statement on the database"},
		"second InTx": {func(env *transmsgtest.Env) error {
			return publisher.InTx(elsewhere, env.Publisher, env.DB, nil,
				func(context.Context, *sql.Tx, *publisher.Tx) error { return nil })
		}, "a second transaction"},
		"second Transaction": {func(env *transmsgtest.Env) error {
			return gormtx.Transaction(elsewhere, env.Publisher, env.Gorm,
				func(context.Context, *gorm.DB, *publisher.Tx) error { return nil })
		}, "a second transaction"},
	} {
		for way, in := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				seen := &told{TB: t}
				env := transmsgtest.New(seen)
				if _, err := env.DB.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER)"); err != nil {
					t.Fatal(err)
				}
				var got error
				if err := in(t.Context(), env, func() { got = c.call(env) }); err != nil {
					t.Errorf("the transaction: %v", err)
				}
				if !errors.Is(got, transmsgtest.ErrPastTx) {
					t.Errorf("the call: %v, want ErrPastTx", got)
				}
				if len(seen.errors) != 1 || !strings.Contains(seen.errors[0], c.want) ||
					strings.Count(seen.errors[0], "misuse_test.go:") != 2 {
					t.Errorf("the test was told %q, want once, with %q and both lines", seen.errors, c.want)
				}
				if err := c.call(env); err != nil || len(seen.errors) != 1 {
					t.Errorf("the same call after the transaction: %v, %q", err, seen.errors[1:])
				}
			})
		}
	}
}

// ways are the three ways to a transaction; each drops what fn got.
var ways = map[string]func(context.Context, *transmsgtest.Env, func()) error{
	"InTx": func(ctx context.Context, env *transmsgtest.Env, fn func()) error {
		return publisher.InTx(ctx, env.Publisher, env.DB, nil, func(context.Context, *sql.Tx, *publisher.Tx) error {
			fn()
			return nil
		})
	},
	"gormtx": func(ctx context.Context, env *transmsgtest.Env, fn func()) error {
		return gormtx.Transaction(ctx, env.Publisher, env.Gorm, func(context.Context, *gorm.DB, *publisher.Tx) error {
			fn()
			return nil
		})
	},
	"by hand": func(ctx context.Context, env *transmsgtest.Env, fn func()) error {
		tx, err := env.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		fn()
		_, err = env.Publisher.Tx(tx).Commit(ctx, tx.Commit)
		return err
	},
}

// An id that is stored already is looked at on another connection, which is no mistake.
func TestH2_TheLibrarysOwnLookIsNoMistake(t *testing.T) {
	t.Parallel()
	env := transmsgtest.New(t)
	env.Broker.Down()
	msg := model.Message{ID: model.StableID("orders", "4711"), Exchange: "orders", RoutingKey: "x"}
	for range 2 {
		err := publisher.InTx(t.Context(), env.Publisher, env.DB, nil,
			func(ctx context.Context, _ *sql.Tx, out *publisher.Tx) error { return out.Publish(ctx, msg) })
		if err != nil {
			t.Fatal(err)
		}
	}
	env.RequireStored(t, "orders", "x")
}
