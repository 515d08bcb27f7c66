package gormstore_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// liar passes everything on to a real server and back, and while lies are left it replaces the
// good answer to an INSERT by an error of its own: what a proxy does that has lost its
// server's answer. With cut it resets the client's connection instead.
type liar struct {
	postgres bool
	lies     atomic.Int64 // how many good answers are still replaced
	told     atomic.Int64 // how many were
	cut      atomic.Bool
	code     string // SQLSTATE, PostgreSQL
	number   uint16 // error number, MySQL
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn
}

func startLiar(t *testing.T, target string, l *liar) (addr string) {
	t.Helper()
	var err error
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	l.wg.Go(func() {
		for {
			client, err := l.listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			l.mu.Lock()
			l.open = append(l.open, client, server)
			l.mu.Unlock()
			insert := new(atomic.Bool)
			l.wg.Go(func() { l.requests(client, server, insert) })
			l.wg.Go(func() { l.answers(client, server, insert) })
		}
	})
	t.Cleanup(func() {
		_ = l.listener.Close()
		l.mu.Lock()
		for _, c := range l.open {
			_ = c.Close()
		}
		l.mu.Unlock()
		l.wg.Wait()
	})
	return l.listener.Addr().String()
}

// requests remembers whether the MySQL command under way is an INSERT of the store.
func (l *liar) requests(client, server net.Conn, insert *atomic.Bool) {
	defer server.Close()
	if l.postgres {
		_, _ = io.Copy(server, client)
		return
	}
	const query, execute = 0x03, 0x17 // the store prepares nothing but INSERTs
	for {
		head, body, err := packet(client)
		if err != nil {
			return
		}
		if head[3] == 0 && len(body) > 0 {
			text := strings.HasPrefix(string(body[1:]), "INSERT INTO trans_message ")
			insert.Store(body[0] == execute || body[0] == query && text)
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return
		}
	}
}

func (l *liar) answers(client, server net.Conn, insert *atomic.Bool) {
	defer client.Close()
	next := packet
	if l.postgres {
		next = message
	}
	for {
		head, body, err := next(server)
		if err != nil {
			return
		}
		good := insert.Load() && len(body) > 0 && body[0] == 0
		if l.postgres {
			good = head[0] == 'C' && strings.HasPrefix(string(body), "INSERT ")
		}
		if good && l.lies.Add(-1) >= 0 {
			l.told.Add(1)
			if l.cut.Load() {
				_ = client.(*net.TCPConn).SetLinger(0)
				return
			}
			head, body = l.lie(head)
		}
		if _, err := client.Write(append(head, body...)); err != nil {
			return
		}
	}
}

func (l *liar) lie(head []byte) ([]byte, []byte) {
	if l.postgres {
		body := []byte("SERROR\x00VERROR\x00C" + l.code + "\x00Mpassed on, answer lost\x00\x00")
		return binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(body)+4)), body
	}
	body := append(binary.LittleEndian.AppendUint16([]byte{0xff}, l.number), "#HY000passed on, answer lost"...)
	return []byte{byte(len(body)), 0, 0, head[3]}, body
}

// packet reads one of MySQL's.
func packet(r io.Reader) (head, body []byte, err error) {
	head = make([]byte, 4)
	if _, err = io.ReadFull(r, head); err != nil {
		return nil, nil, err
	}
	body = make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err = io.ReadFull(r, body)
	return head, body, err
}

// message reads one of PostgreSQL's server.
func message(r io.Reader) (head, body []byte, err error) {
	head = make([]byte, 5)
	if _, err = io.ReadFull(r, head); err != nil {
		return nil, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	_, err = io.ReadFull(r, body)
	return head, body, err
}
