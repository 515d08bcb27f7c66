// Package modeltest is tests alone: random walks through the life of stored rows, by several
// actors at once, over the real store and the real batcher. After each step the table is
// compared with a model that is written from the rules in README.md and ARCHITECTURE.md
// and shares no code with the product, and with what the broker of the walk has accepted.
package modeltest
