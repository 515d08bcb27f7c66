package main

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lockMonitor reads all that a Redis does, as Redis itself tells it (MONITOR), and
// follows who has the keys of the lock.
type lockMonitor struct {
	conn net.Conn
	done chan struct{}

	mu      sync.Mutex
	holders map[string]string // key to token
	call    []string          // the script call whose commands follow
	taken   []lockTaken
	foreign []string // releases by somebody other than the holder
	freed   int      // releases by the holder
}

// lockTaken is a key that got a new holder.
type lockTaken struct {
	key, token string
	at         time.Time
}

// monitorLock starts to read; the caller calls close.
func monitorLock(addr string) (*lockMonitor, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("monitor redis: %w", err)
	}
	m := &lockMonitor{conn: conn, done: make(chan struct{}), holders: map[string]string{}}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || !lines.Scan() || lines.Text() != "+OK" {
		return nil, fmt.Errorf("monitor redis: %w: %q", err, lines.Text())
	}
	go func() {
		defer close(m.done)
		for lines.Scan() {
			m.line(lines.Text())
		}
	}()
	return m, nil
}

func (m *lockMonitor) close() error {
	err := m.conn.Close()
	<-m.done
	return err
}

// line takes one command: +1700000000.123456 [0 lua] "msetnx" "key" "token".
func (m *lockMonitor) line(text string) {
	now := time.Now()
	_, rest, ok := strings.Cut(text, "] ")
	if !ok {
		return
	}
	var words []string
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		word, _ := strconv.Unquote(quoted)
		words = append(words, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	if len(words) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch strings.ToLower(words[0]) {
	case "eval", "evalsha":
		m.call = words
	case "msetnx": // also one that fails: the pexpire after it tells
	case "pexpire":
		m.expire(words, now)
	case "del", "unlink", "set", "getdel":
		m.del(words)
	}
}

// expire is how a script ends that obtained or renewed: eval SCRIPT 1 KEY TOKEN ...
func (m *lockMonitor) expire(words []string, now time.Time) {
	if len(m.call) < 5 || len(words) < 2 {
		return
	}
	key, token := words[1], m.call[4]
	if m.holders[key] != token {
		m.holders[key] = token
		m.taken = append(m.taken, lockTaken{key, token, now})
	}
}

// del is the end of a key by anything but its time.
func (m *lockMonitor) del(words []string) {
	for _, key := range words[1:] {
		if len(m.call) < 5 || m.call[3] != key || m.call[4] != m.holders[key] {
			m.foreign = append(m.foreign, strings.Join(words, " "))
			continue
		}
		m.freed++
		delete(m.holders, key)
	}
}

// holder returns the token that has the key that ends so, as far as Redis told; "" is nobody.
func (m *lockMonitor) holder(suffix string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, token := range m.holders {
		if strings.HasSuffix(key, suffix) {
			return token
		}
	}
	return ""
}

// after returns the first taking of the key that ends so after at.
func (m *lockMonitor) after(suffix string, at time.Time) (lockTaken, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.taken {
		if strings.HasSuffix(t.key, suffix) && t.at.After(at) {
			return t, true
		}
	}
	return lockTaken{}, false
}

// releases returns those by holders, and the others.
func (m *lockMonitor) releases() (freed int, foreign []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.freed, append([]string{}, m.foreign...)
}
