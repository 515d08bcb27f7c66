package dbtest_test

import (
	"testing"

	"github.com/transmsg/transmsg/internal/dbtest"
)

// TestGaleraNodesShareWhatEachWrites: a row that one node commits is read on the others, and
// a node that was killed takes what it missed from them.
func TestGaleraNodesShareWhatEachWrites(t *testing.T) {
	t.Parallel()
	nodes, err := dbtest.NewGalera(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if err := nodes[1].Exec(t.Context(), "CREATE DATABASE shop",
		"CREATE TABLE shop.t (n INT PRIMARY KEY) ENGINE=InnoDB",
		"INSERT INTO shop.t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := nodes[2].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].Exec(t.Context(), "INSERT INTO shop.t VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	if err := nodes[2].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if got := numbers(t, n); got != "[1 2]" {
			t.Errorf("%s has %s, want 1 and 2", n.Addr(), got)
		}
	}
}
