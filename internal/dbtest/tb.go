package dbtest

import "context"

// TB is the part of testing.TB that this package uses. It is an interface of
// our own, so that programs that link this package do not link testing.
type TB interface {
	Helper()
	Name() string
	Cleanup(func())
	Context() context.Context
	TempDir() string
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// closer is what every private server has.
type closer interface{ Close() error }

// start returns what create created and closes it when the test ends.
func start[T closer](tb TB, create func(context.Context) (T, error)) T {
	tb.Helper()
	s, err := create(tb.Context())
	if err != nil {
		tb.Fatalf("dbtest: %v", err)
		return s
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("dbtest: %v", err)
		}
	})
	return s
}

// fresh returns the DSN that create created and drops it when the test ends.
func fresh(tb TB, create func(context.Context) (string, func() error, error)) string {
	tb.Helper()
	dsn, drop, err := create(tb.Context())
	if err != nil {
		tb.Fatalf("dbtest: %v", err)
		return ""
	}
	tb.Cleanup(func() {
		if err := drop(); err != nil {
			tb.Errorf("dbtest: %v", err)
		}
	})
	return dsn
}
