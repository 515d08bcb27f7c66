package broker

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func pipeWire(t *testing.T, timeout time.Duration) (w *Wire, sock *socket, peer net.Conn) {
	t.Helper()
	near, far := net.Pipe() // a write waits until the peer reads
	sock = &socket{Conn: near, writeTimeout: timeout}
	w = newWire(sock, sock)
	t.Cleanup(func() {
		far.Close()
		w.Kill()
		<-w.Flushed
	})
	return w, sock, far
}

func write(t *testing.T, w *Wire, b []byte) {
	t.Helper()
	if n, err := w.Write(b); n != len(b) || err != nil {
		t.Fatalf("write: %d bytes, %v", n, err)
	}
}

func TestWireNeverBlocksAndKeepsOrder(t *testing.T) {
	t.Parallel()
	w, _, peer := pipeWire(t, time.Minute)
	var want []byte
	for i := range 3000 {
		b := bytes.Repeat([]byte{byte(i)}, 1000)
		write(t, w, b)
		want = append(want, b...)
	}
	low := w.Full()
	if low == nil {
		t.Fatal("3 MB unread and not full")
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("what was read differs (%v)", err)
	}
	<-low
	if w.Full() != nil {
		t.Error("full after all was written")
	}
}

func TestWireGivesUpOnlyWithoutProgress(t *testing.T) {
	t.Parallel()
	w, _, peer := pipeWire(t, 300*time.Millisecond)
	write(t, w, make([]byte, 20))
	one := make([]byte, 1)
	for range 8 { // 800 ms in all: much longer than the timeout
		<-time.After(100 * time.Millisecond)
		if _, err := peer.Read(one); err != nil {
			t.Fatalf("given up with progress: %v", err)
		}
	}
	<-w.Flushed
	if err := w.Failure(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("failure: %v, want the deadline", err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write on a broken wire: %v", err)
	}
}

func TestWireIsPatientWhileBlocked(t *testing.T) {
	t.Parallel()
	w, sock, peer := pipeWire(t, 100*time.Millisecond)
	sock.patient.Store(true)
	write(t, w, []byte("hello"))
	<-time.After(500 * time.Millisecond)
	got := make([]byte, 5)
	if _, err := io.ReadFull(peer, got); err != nil || string(got) != "hello" {
		t.Fatalf("after five write timeouts while blocked: %q, %v", got, err)
	}
}

func TestWireCloseFlushesAndKillDoesNot(t *testing.T) {
	t.Parallel()
	w, _, peer := pipeWire(t, time.Minute)
	write(t, w, []byte("last words"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(peer); string(got) != "last words" || err != nil {
		t.Errorf("after Close the peer read %q, %v", got, err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}
	if err := w.Failure(); err != nil {
		t.Errorf("a closed wire is no failure of the network: %v", err)
	}

	w, _, _ = pipeWire(t, time.Minute) // nobody reads
	write(t, w, []byte("unread"))
	w.Kill()
	<-w.Flushed

	w, _, _ = pipeWire(t, time.Minute)
	write(t, w, []byte("unread"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	<-w.Flushed // the linger ends it
}
