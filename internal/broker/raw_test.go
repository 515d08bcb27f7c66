package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

func frameOf(kind byte, payload string) []byte {
	b := append([]byte{kind, 0, 1}, binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)
	return append(append(b, payload...), frameEnd)
}

// readerConn is a connection that is read from r.
type readerConn struct {
	net.Conn
	r io.Reader
}

func (c readerConn) Read(b []byte) (int, error) { return c.r.Read(b) }

// TestRawPropertiesAreKeptFromTheLibrary: content headers lose their properties, which are found by the id that they
// got instead, and every other byte passes, however the bytes arrive.
func TestRawPropertiesAreKeptFromTheLibrary(t *testing.T) {
	t.Parallel()
	const first, second = "\x20\x00\x00\x00\x00\x03\x01aZ", "\x00\x00" // a type that nobody knows; no property
	content := func(properties string) []byte {
		return frameOf(2, "\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05"+properties)
	}
	in := bytes.Join([][]byte{
		frameOf(1, "method"), content(first), frameOf(3, "hello"), frameOf(8, ""), content(second), frameOf(2, "short"),
		frameOf(1, ""),
		{1, 0, 0},
	}, nil)
	want := bytes.Join([][]byte{
		frameOf(1, "method"), content("\x00\x80\x011"), frameOf(3, "hello"), frameOf(8, ""), content("\x00\x80\x012"),
		frameOf(2, "short"), frameOf(1, ""),
		{1, 0, 0},
	}, nil)
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(in), "byte by byte": iotest.OneByteReader(bytes.NewReader(in)),
		"halves": iotest.HalfReader(bytes.NewReader(in)),
	} {
		c := newRawConn(readerConn{r: r})
		got, err := io.ReadAll(iotest.OneByteReader(c))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: read %q (%v), want %q", name, got, err, want)
		}
		a, b := c.kept.Take("1"), c.kept.Take("2")
		if string(a) != first || string(b) != second || c.kept.Take("1") != nil {
			t.Errorf("%s: kept %q and %q, want %q and %q, once", name, a, b, first, second)
		}
	}

	cut := io.MultiReader(bytes.NewReader(content(first)[:20]), iotest.ErrReader(errors.New("cut")))
	c := newRawConn(readerConn{r: cut})
	if got, err := io.ReadAll(c); err == nil {
		t.Errorf("a header that was cut off: read %q and no error", got)
	}
	greeting := []byte("AMQP\x00\x00\x09\x01")
	got, err := io.ReadAll(newRawConn(readerConn{r: bytes.NewReader(greeting)}))
	if err != nil || !bytes.Equal(got, greeting) {
		t.Errorf("another protocol: read %q, %v", got, err)
	}
}
