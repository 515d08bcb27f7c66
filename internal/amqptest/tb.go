package amqptest

import "context"

// TB is the part of testing.TB that this package uses. It is an interface of
// our own, so that programs that link this package do not link testing.
type TB interface {
	Helper()
	Name() string
	Cleanup(func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}
