package main

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

// orders are what a running process is told to do differently.
type orders struct {
	// Storm makes transactions lock their rows in any order.
	Storm bool
	// ClockStep is by how much the wall clock steps between an INSERT and its send.
	ClockStep time.Duration
}

// writeOrders replaces the orders of the process that reads path.
func writeOrders(path string, o orders) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// control reads the orders of this process, at most every 20 ms.
type control struct {
	path string

	mu   sync.Mutex
	read time.Time
	last orders
}

func newControl(path string) *control { return &control{path: path} }

func (c *control) get() orders {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < 20*time.Millisecond {
		return c.last
	}
	c.read = time.Now()
	data, err := os.ReadFile(c.path)
	if err != nil {
		return c.last // none yet
	}
	var o orders
	if json.Unmarshal(data, &o) == nil {
		c.last = o
	}
	return c.last
}
