package broker

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// socket is the TCP connection under TLS and AMQP. It counts reads for the watchdog,
// and gives up a write only when no byte of it moved for the write timeout and the
// broker has not blocked the connection. (A deadline on tls.Conn would break it for
// good, hence down here.)
type socket struct {
	net.Conn
	writeTimeout time.Duration
	reads        atomic.Uint64
	patient      atomic.Bool // the connection is blocked: waiting is right
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.reads.Add(1)
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) {
	total := 0
	for total < len(b) {
		if err := s.Conn.SetWriteDeadline(time.Now().Add(s.writeTimeout)); err != nil {
			return total, err
		}
		// In pieces: one Write has one deadline, however far it gets before.
		n, err := s.Conn.Write(b[total:min(total+writePiece, len(b))])
		total += n
		if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || (n == 0 && !s.patient.Load())) {
			return total, err
		}
	}
	return total, nil
}

// writePiece is how many bytes may take up to the write timeout.
const writePiece = 64 << 10

// SetDeadline sets the read deadline: writes have their own rule.
func (s *socket) SetDeadline(t time.Time) error { return s.Conn.SetReadDeadline(t) }

// SetWriteDeadline does nothing: writes have their own rule.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

// Bounds of the wire's buffer.
const (
	// wireHigh is where channels stop adding: backpressure instead of a confirm timeout on
	// a slow link.
	wireHigh = 1 << 20
	// wireKeep is the largest buffer kept for reuse.
	wireKeep = 4 << 20
	// linger is how long Close lets the last frames (close-ok) go out.
	linger = 200 * time.Millisecond
)

// Wire is what the client library writes to. Write only appends to a buffer that a
// goroutine flushes. The library flushes once per message: this makes one system call
// of many. And it never blocks the library, which holds its locks while it writes: a
// stuck socket would otherwise stop heartbeats and its own shutdown.
type Wire struct {
	net.Conn // the outermost connection: TLS or the socket itself
	sock     *socket

	mu      sync.Mutex
	buf     []byte
	err     error         // sticky: the reason no more is written
	broken  bool          // err came from the network
	closing bool          // no more writes; flush and end
	low     chan struct{} // non-nil while buf is above wireHigh; closed when it is not

	work    chan struct{} // cap 1: buf or closing changed
	Flushed chan struct{} // closed when the flusher has ended
}

// Reads counts the reads from the socket that brought something.
func (w *Wire) Reads() uint64 { return w.sock.reads.Load() }

// SetPatient says whether waiting is right: the broker blocks the connection, and no write is given up.
func (w *Wire) SetPatient(patient bool) { w.sock.patient.Store(patient) }

// Patient reports what SetPatient said last.
func (w *Wire) Patient() bool { return w.sock.patient.Load() }

func newWire(conn net.Conn, sock *socket) *Wire {
	w := &Wire{Conn: conn, sock: sock, work: make(chan struct{}, 1), Flushed: make(chan struct{})}
	go w.flush()
	return w
}

// Write appends all of b, or nothing and returns why the wire is dead.
func (w *Wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if w.closing {
		return 0, net.ErrClosed
	}
	if len(w.buf) == 0 {
		w.wake()
	}
	w.buf = append(w.buf, b...)
	if len(w.buf) > wireHigh && w.low == nil {
		w.low = make(chan struct{})
	}
	return len(b), nil
}

// Full returns a channel that is closed when there is room again, or nil when there is.
func (w *Wire) Full() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.low
}

// Failure returns the network's error that ended writing, if one did.
func (w *Wire) Failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.broken {
		return nil
	}
	return w.err
}

func (w *Wire) wake() {
	select {
	case w.work <- struct{}{}:
	default:
	}
}

// flush writes the buffer out until Close or an error, and closes the socket at its end.
func (w *Wire) flush() {
	defer close(w.Flushed)
	defer w.sock.Conn.Close()
	var out []byte
	for {
		w.mu.Lock()
		out, w.buf = w.buf, out[:0]
		closing := w.closing
		if w.low != nil {
			close(w.low)
			w.low = nil
		}
		w.mu.Unlock()
		if len(out) == 0 {
			if closing {
				return
			}
			<-w.work
			continue
		}
		if _, err := w.Conn.Write(out); err != nil {
			w.fail(err)
			return
		}
		if cap(out) > wireKeep {
			out = nil
		}
	}
}

func (w *Wire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing { // else the error is that we closed the socket
		w.broken = true
	}
	w.err = err
	w.buf = nil
	if w.low != nil {
		close(w.low)
		w.low = nil
	}
}

// Close is the library's: it returns at once, what is buffered may still go out for a
// moment, then the socket is closed. Reads end at once.
func (w *Wire) Close() error {
	w.mu.Lock()
	first := !w.closing
	w.closing = true
	w.mu.Unlock()
	if !first {
		return nil
	}
	w.sock.patient.Store(false)
	time.AfterFunc(linger, func() { w.sock.Conn.Close() })
	w.wake()
	return w.sock.Conn.SetReadDeadline(time.Now())
}

// Kill closes the socket under everything: every read and write on it ends now.
func (w *Wire) Kill() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.sock.Conn.Close()
	w.wake()
}

// Goodbye lets the library's close-ok go out, if it can, before the owner kills the wire.
func (w *Wire) Goodbye() {
	timer := time.NewTimer(2 * linger)
	defer timer.Stop()
	select {
	case <-w.Flushed: // the library closed the wire
	case <-timer.C:
	}
}
