// Package topologytest breaks a good topology in named ways: what topology.Check must find. The fixtures in
// topology/testdata and the acceptance check topology-check are made of it. Each way edits a definitions file, which
// a real broker then imports, so that what is checked is what that broker made of it.
package topologytest
