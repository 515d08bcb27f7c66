// Package dial holds what the packages of the dialects share when they open a pool: reading a
// DSN in URL form, preparing each new connection, and its TLS settings.
package dial
