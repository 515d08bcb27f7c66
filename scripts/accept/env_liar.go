package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// lie is one fault of a liar: at the next statement whose text begins with At, it cuts the
// connection or answers with Code, before the server has seen the statement or after its answer.
type lie struct {
	At     string // upper case, such as COMMIT
	Before bool   // the server never sees it; MySQL alone
	Code   string // SQLSTATE or MySQL's number as two bytes; empty cuts the connection
}

// String names the lie.
func (l *lie) String() string {
	if l == nil {
		return "no lie"
	}
	return fmt.Sprintf("a lie at %s, before it %v, code %q", l.At, l.Before, l.Code)
}

// liar stands before a database server, passes on what goes by, and tells the lie that is armed.
type liar struct {
	postgres bool
	target   string
	listener net.Listener

	mu   sync.Mutex
	next *lie
	told bool
	open []net.Conn
	wg   sync.WaitGroup
}

func newLiar(postgres bool, target string) (*liar, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &liar{postgres: postgres, target: target, listener: listener}
	l.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.wg.Go(func() { l.serve(client) })
		}
	})
	return l, nil
}

func (l *liar) addr() string { return l.listener.Addr().String() }

func (l *liar) close() error {
	err := l.listener.Close()
	l.mu.Lock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
	return err
}

// arm makes the liar lie once, or with nil not any more. It returns whether the last lie was told.
func (l *liar) arm(next *lie) (told bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	told, l.told, l.next = l.told, false, next
	return told
}

// take returns the armed lie if it is about this moment, and disarms it.
func (l *liar) take(statement string, before bool) *lie {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.next
	if n == nil || n.Before != before || !strings.HasPrefix(statement, n.At) {
		return nil
	}
	l.next, l.told = nil, true
	return n
}

func (l *liar) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer server.Close()
	l.mu.Lock()
	l.open = append(l.open, client, server)
	l.mu.Unlock()
	c := &lied{liar: l, client: client, server: server}
	var requests sync.WaitGroup
	requests.Go(func() {
		defer server.Close()
		if l.postgres {
			_, _ = io.Copy(server, client)
			return
		}
		c.requests()
	})
	c.answers()
	_ = client.Close()
	requests.Wait()
}

// lied is one connection.
type lied struct {
	*liar
	client, server net.Conn

	mu        sync.Mutex
	statement string // under way
}

var errCut = errors.New("cut")

// requests passes MySQL's commands on.
func (c *lied) requests() {
	const query, execute = 0x03, 0x17 // the store prepares nothing but INSERTs
	for {
		packet, err := frame(c.client, false)
		if err != nil {
			return
		}
		statement := ""
		if packet[3] == 0 && len(packet) > 4 {
			switch packet[4] {
			case query:
				statement = strings.ToUpper(string(packet[5:min(len(packet), 80)]))
			case execute:
				statement = "INSERT INTO TRANS_MESSAGE"
			}
		}
		c.mu.Lock()
		c.statement = statement
		c.mu.Unlock()
		if n := c.take(statement, true); n != nil && statement != "" {
			if c.tell(n, packet[3]+1) != nil {
				return
			}
			continue
		}
		if _, err := c.server.Write(packet); err != nil {
			return
		}
	}
}

// answers passes them on, and replaces a good one.
func (c *lied) answers() {
	for {
		packet, err := frame(c.server, c.postgres)
		if err != nil {
			return
		}
		if statement := c.answered(packet); statement != "" {
			if n := c.take(statement, false); n != nil {
				if c.tell(n, packet[3]) != nil {
					return
				}
				continue
			}
		}
		if _, err := c.client.Write(packet); err != nil {
			return
		}
	}
}

// answered returns the statement that a packet says is done, or "".
func (c *lied) answered(packet []byte) string {
	if c.postgres {
		if packet[0] == 'C' {
			return string(packet[5:])
		}
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(packet) < 5 || packet[4] == 0xff {
		return ""
	}
	statement := c.statement
	c.statement = ""
	return statement
}

// tell answers in the server's place, or cuts the connection.
func (c *lied) tell(n *lie, seq byte) error {
	switch {
	case n.Code == "":
		if tcp, ok := c.client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return errors.Join(errCut, c.client.Close())
	case c.postgres:
		body := []byte("SERROR\x00VERROR\x00C" + n.Code + "\x00Mthe answer was lost\x00\x00")
		packet := append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(body)+4)), body...)
		_, err := c.client.Write(packet)
		return err
	}
	body := "\xff" + n.Code + "#HY000the answer was lost"
	_, err := c.client.Write(append([]byte{byte(len(body)), 0, 0, seq}, body...))
	return err
}

// frame reads one packet of MySQL's, or one message of PostgreSQL's server.
func frame(r io.Reader, postgres bool) ([]byte, error) {
	head := make([]byte, 4, 5)
	if postgres {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	size := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if postgres {
		size = int(binary.BigEndian.Uint32(head[1:])) - 4
	}
	packet := append(head, make([]byte, size)...)
	_, err := io.ReadFull(r, packet[len(head):])
	return packet, err
}
