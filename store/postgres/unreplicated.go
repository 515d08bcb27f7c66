package postgres

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// With a synchronous standby a commit whose wait for it was cancelled (pg_cancel_backend, a
// pooler's time-out) is answered with success and a warning: it is committed here alone, and a
// fail-over may lose it. So the warning is turned into an error, which nobody takes for
// certain: its SQLSTATE is that of a warning.
const (
	typeNotice, typeError = 'N', 'E'
	// waitRoutine is where the server says so, in every language.
	waitRoutine = "RSyncRepWaitForLSN\x00"
	headerSize  = 5
	maxNotice   = 16 << 10
)

// frontend is pgx's own behind a reader that turns the warning.
func frontend(r io.Reader, w io.Writer) *pgproto3.Frontend {
	return pgproto3.NewFrontend(&noticeReader{r: bufio.NewReaderSize(r, maxNotice)}, w)
}

// noticeReader passes the server's messages on as they are but for their type.
type noticeReader struct {
	r    *bufio.Reader
	left int // bytes of the message that is passed on
}

// Read implements io.Reader.
func (n *noticeReader) Read(p []byte) (int, error) {
	if n.left > 0 {
		k, err := n.r.Read(p[:min(len(p), n.left)])
		n.left -= k
		return k, err
	}
	head, err := n.r.Peek(headerSize)
	if err != nil {
		return 0, err
	}
	size := 1 + int(binary.BigEndian.Uint32(head[1:]))
	kind := head[0]
	if kind == typeNotice && size <= maxNotice {
		whole, err := n.r.Peek(size)
		if err != nil {
			return 0, err
		}
		if bytes.Contains(whole, []byte(waitRoutine)) {
			kind = typeError
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	if _, err := n.r.Discard(1); err != nil {
		return 0, err
	}
	p[0], n.left = kind, size-1
	return 1, nil
}
