package gormstore_test

import (
	"database/sql"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mysqldrv "github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// pair is a primary and a replica of it that is read only and held five seconds behind.
func pair(t *testing.T) (primary, replica *dbtest.MariaDBServer) {
	t.Helper()
	primary = dbtest.StartMariaDB(t, dbtest.MariaDBOptions{ServerID: 1})
	replica = dbtest.StartMariaDB(t, dbtest.MariaDBOptions{ServerID: 2, Flags: []string{"--read-only=1"}})
	if err := replica.Follow(t.Context(), primary, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	return primary, replica
}

// splitter is a balancer: every plain SELECT goes to the replica, also one in a transaction, and
// all else to the primary. It needs users without a password, whose login fits both.
type splitter struct {
	primary, replica string
	reads            atomic.Int64 // how many the replica got
	listener         net.Listener
	wg               sync.WaitGroup
	mu               sync.Mutex
	open             []net.Conn
}

func startSplitter(t *testing.T, primary, replica string) *splitter {
	t.Helper()
	s := &splitter{primary: primary, replica: replica}
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.wg.Go(func() {
		for {
			client, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = s.listener.Close()
		s.mu.Lock()
		for _, c := range s.open {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *splitter) keep(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, c)
}

func (s *splitter) serve(client net.Conn) {
	defer client.Close()
	s.keep(client)
	primary, err := net.Dial("tcp", s.primary)
	if err != nil {
		return
	}
	defer primary.Close()
	s.keep(primary)
	replica, err := net.Dial("tcp", s.replica)
	if err != nil {
		return
	}
	defer replica.Close()
	s.keep(replica)
	if s.login(client, primary, replica) != nil {
		return
	}
	// One command at a time: only the server that got it answers.
	var answers sync.WaitGroup
	answers.Go(func() { _, _ = io.Copy(client, primary) })
	answers.Go(func() { _, _ = io.Copy(client, replica) })
	s.commands(client, primary, replica)
	_ = primary.Close()
	_ = replica.Close()
	answers.Wait()
}

// login passes the primary's greeting and the client's answer on, which the replica gets too.
func (s *splitter) login(client, primary, replica net.Conn) error {
	if err := pass(primary, client); err != nil {
		return err
	}
	if err := pass(replica, io.Discard); err != nil {
		return err
	}
	if err := pass(client, io.MultiWriter(primary, replica)); err != nil {
		return err
	}
	return pass(replica, io.Discard)
}

func pass(from io.Reader, to io.Writer) error {
	head, body, err := packet(from)
	if err == nil {
		_, err = to.Write(append(head, body...))
	}
	return err
}

func (s *splitter) commands(client, primary, replica net.Conn) {
	for {
		head, body, err := packet(client)
		if err != nil {
			return
		}
		to, text := primary, strings.ToUpper(string(body[min(1, len(body)):]))
		if body[0] == 3 && strings.HasPrefix(text, "SELECT ") && !strings.HasSuffix(text, "FOR UPDATE") {
			to = replica
			s.reads.Add(1)
		}
		if _, err := to.Write(append(head, body...)); err != nil {
			return
		}
	}
}

// TestB3_MissingIsAskedOfThePrimary: behind a balancer that reads from a replica, which is five
// seconds behind, rows that were just committed are there, and those that were not are not. A
// store that reaches the replica alone cannot tell.
func TestB3_MissingIsAskedOfThePrimary(t *testing.T) {
	primary, replica := pair(t)
	schema, err := primary.NewSchema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	truth := migrated(t, primary.DSN(schema), gormstore.Options{})
	var behind *gormstore.Store
	config, err := mysqldrv.ParseDSN(primary.DSN(schema))
	if err != nil {
		t.Fatal(err)
	}
	balancer := startSplitter(t, primary.Addr(), replica.Addr())
	config.Addr = balancer.listener.Addr().String()
	eventually(t, "the replica has the tables", func() bool {
		behind, err = anystore.Open(t.Context(), config.FormatDSN(), gormstore.Options{})
		return err == nil
	})
	t.Cleanup(func() { _ = behind.Close() })
	lagging, err := anystore.Open(t.Context(), replica.DSN(schema), gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lagging.Close() })

	rows, never := batch(3), batch(2)
	if _, err := truth.Insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if n, err := count(t, replica.DSN(schema)); err != nil || n != 0 {
		t.Fatalf("the replica has %d rows already, %v: it does not lag", n, err)
	}
	before := balancer.reads.Load()
	if n := present(t, behind, append(rows, never...)...); n != len(rows) {
		t.Errorf("%d of %d committed rows are there", n, len(rows))
	}
	if balancer.reads.Load() == before {
		t.Error("nothing was read from the replica: the balancer does not bite")
	}
	got, err := lagging.ReadBack(t.Context(), []string{rows[0].ID})
	if err == nil {
		t.Errorf("got %v from a replica alone, want an error: it cannot know", got)
	}
	rows[0].Epoch, rows[1].Payload = model.NewEpoch(), []byte("other")
	for i, want := range []model.Stored{model.StoredBefore, model.StoredOther} {
		stored, err := behind.Insert(t.Context(), rows[i:i+1])
		if err != nil || stored[0] != want {
			t.Errorf("a row that exists: got %v, %v, want %v", stored, err, want)
		}
	}
}

func count(t *testing.T, dsn string) (n int, err error) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM trans_message").Scan(&n)
	return n, err
}
