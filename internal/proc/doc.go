// Package proc runs the private servers of tests and acceptance checks: a
// child process that can be stopped, killed and started again, and the free
// loopback ports it listens on.
//
// A child is a direct child of this process, so it is ended by its own process
// id and never by name; on Linux the kernel also kills it when this process
// dies without cleaning up.
package proc
