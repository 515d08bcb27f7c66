package confirms_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// tlsFront listens with a self-signed certificate for localhost and passes on to target.
type tlsFront struct {
	listener net.Listener
	roots    *x509.CertPool
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newTLSFront(t *testing.T, target string) *tlsFront {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	f := &tlsFront{roots: x509.NewCertPool()}
	f.roots.AddCert(cert)
	f.listener, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	must(t, err)
	f.wg.Go(func() { f.serve(target) })
	t.Cleanup(func() {
		f.listener.Close()
		f.cut()
		f.wg.Wait()
	})
	return f
}

func (f *tlsFront) serve(target string) {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			client.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, client, server)
		f.mu.Unlock()
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			f.wg.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				pair[0].Close()
				pair[1].Close()
			})
		}
	}
}

func (f *tlsFront) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}

func (f *tlsFront) addr() string {
	_, port, _ := net.SplitHostPort(f.listener.Addr().String())
	return "localhost:" + port
}

func TestC32_TLSIsAskedForAndClonedAtEveryDial(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	queueOn(t, amqptest.Connect(t, url), "ex", "q", "k")
	cfg := configFor(t, url)
	f := newTLSFront(t, cfg.Addrs[0])
	cfg.Addrs = []string{f.addr()}
	shared := &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS12}
	var asked, credentials atomic.Int32
	cfg.TLS = func(context.Context) (*tls.Config, error) {
		asked.Add(1)
		return shared, nil
	}
	given := cfg.Credentials
	cfg.Credentials = func(ctx context.Context) (string, string, error) {
		credentials.Add(1)
		return given(ctx)
	}
	s := open(t, cfg)
	r := newResults(t)
	for i := range 10 {
		generation := s.Stats().Generation
		r.send(s, message(t, "ex", "k"))
		r.wait()
		f.cut()
		eventually(t, "a new connection", func() bool { return s.Stats().Generation > generation && s.Ready() })
		if int(asked.Load()) < i+2 || asked.Load() != credentials.Load() {
			t.Errorf("TLS asked for %d times, credentials %d, after %d dials", asked.Load(), credentials.Load(), i+2)
		}
	}
	r.wantAll(map[string]int{"acked": 10})
	if shared.ServerName != "" {
		t.Error("the caller's TLS settings were changed")
	}
}

func TestC32_TLSErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	plain := configFor(t, amqptest.VHost(t))
	f := newTLSFront(t, plain.Addrs[0])
	_, port, _ := net.SplitHostPort(f.addr())
	for name, c := range map[string]struct {
		addr string
		tls  *tls.Config
		want string
	}{
		"unknown authority": {f.addr(), &tls.Config{}, "authority unknown here"},
		"other name":        {"127.0.0.1:" + port, &tls.Config{RootCAs: f.roots}, "certificate is for another name"},
		"plain port":        {plain.Addrs[0], &tls.Config{}, "does not speak TLS"},
		"plain to TLS":      {f.addr(), nil, "amqps"},
	} {
		cfg := plain
		cfg.Addrs = []string{c.addr}
		cfg.DialTimeout = 2 * time.Second
		if c.tls != nil {
			cfg.TLS = func(context.Context) (*tls.Config, error) { return c.tls, nil }
		}
		s := start(t, cfg)
		eventually(t, name, func() bool { return s.LastError() != nil })
		if text := s.LastError().Error(); !strings.Contains(text, c.want) {
			t.Errorf("%s: got %q, want %q", name, text, c.want)
		}
	}
}

// TestSilentServerIsBounded dials a listener that accepts and says nothing.
func TestC32_SilentServerIsBounded(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	cfg := configFor(t, "amqp://"+l.Addr().String())
	cfg.DialTimeout = 200 * time.Millisecond
	for _, secure := range []bool{false, true} {
		if secure {
			cfg.TLS = func(context.Context) (*tls.Config, error) { return nil, nil }
		}
		s := start(t, cfg)
		eventually(t, "the dial given up", func() bool { return s.LastError() != nil })
		if text := s.LastError().Error(); !strings.Contains(text, "no answer in time") {
			t.Errorf("got %q", text)
		}
	}
}
