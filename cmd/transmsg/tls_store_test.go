package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/proc"
)

// secureStores are a MariaDB and a PostgreSQL with TLS, by the DSN of an empty schema.
func secureStores(t *testing.T, ca *authority) map[string]string {
	t.Helper()
	cert, key := ca.issue(t, "database", serverName, "localhost")
	maria := dbtest.StartMariaDB(t, dbtest.MariaDBOptions{Flags: []string{
		"--ssl-ca=" + ca.file, "--ssl-cert=" + cert, "--ssl-key=" + key,
	}})
	schema, err := maria.NewSchema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := maria.Exec(t.Context(), "CREATE USER tls@'127.0.0.1' REQUIRE X509",
		"GRANT ALL ON "+schema+".* TO tls@'127.0.0.1'"); err != nil {
		t.Fatal(err)
	}
	pg := dbtest.StartPostgres(t)
	pgCert, pgKey := ca.issue(t, "postgres", serverName, "localhost")
	ownedByPostgres(t, pgKey)
	if err := pg.Exec(t.Context(), "ALTER SYSTEM SET ssl_cert_file = '"+pgCert+"'",
		"ALTER SYSTEM SET ssl_key_file = '"+pgKey+"'", "ALTER SYSTEM SET ssl = on",
		"SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	database, err := pg.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"mysql":    fmt.Sprintf("mysql://tls@%s/%s", maria.Addr(), schema),
		"postgres": fmt.Sprintf("postgres://postgres@%s/%s", pg.Addr(), database),
	}
}

// ownedByPostgres makes a key readable by the server alone, which insists on it.
func ownedByPostgres(t *testing.T, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, uid, -1); err != nil {
		t.Fatal(err)
	}
}

// The database by CA, server name and client certificate; a wrong one is an error that
// says so, never a connection without TLS.
func TestC32_StoreTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	cert, key := ca.issue(t, "client")
	for kind, dsn := range secureStores(t, ca) {
		t.Run(kind, func(t *testing.T) {
			client := []string{"--store-tls-cert", cert, "--store-tls-key", key}
			for _, tt := range []struct {
				name, dsn, want string
				flags           []string
			}{
				{"all given", dsn, "", []string{"--store-tls-ca", ca.file, "--store-tls-server-name", serverName}},
				{
					"another authority", dsn, "unknown authority",
					[]string{"--store-tls-ca", stranger.file, "--store-tls-server-name", serverName},
				},
				{
					"address that is not in the certificate", dsn, "cannot validate certificate for 127.0.0.1",
					[]string{"--store-tls-ca", ca.file},
				},
				{
					"verification by the DSN alone", strings.Replace(dsn, "127.0.0.1", "localhost", 1) +
						map[string]string{"mysql": "?tls=true", "postgres": "?sslmode=verify-full"}[kind],
					"unknown authority", nil,
				},
			} {
				args := append([]string{"migrate", "up", "--store", tt.dsn}, tt.flags...)
				if len(tt.flags) > 0 {
					args = append(args, client...)
				}
				code, _, errs := runIn(t, args...)
				if tt.want == "" && code != 0 ||
					tt.want != "" && (code != exitFailed || !strings.Contains(errs, tt.want)) {
					t.Errorf("%s: exit %d, want %q: %s", tt.name, code, tt.want, errs)
				}
			}
		})
	}
}

// User and password of --store-file are asked for at each dial.
func TestC28_StoreCredentialsRotate(t *testing.T) {
	t.Parallel()
	store, drop, err := dbtest.NewMySQL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	path := t.TempDir() + "/dsn"
	write := func(dsn string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(dsn+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := storeOptions{dsnFile: path}
	a := &app{secrets: &redactor{}}
	o.tls.fs = pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.tls.bind(o.tls.fs, o.tls.fs, "store", "the database")
	write(store)
	s, err := a.openUnchecked(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dsn, err := o.resolve(a, "")
	if err != nil {
		t.Fatal(err)
	}
	write("mysql://stranger:" + canary + "@127.0.0.1:3306/other")
	options, err := o.options(a, dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openDSN(t.Context(), anystore.Open, dsn, options)
	if err == nil || !strings.Contains(err.Error(), "stranger") || strings.Contains(err.Error(), canary) {
		t.Errorf("a dial after the change: %v, want a refusal of the new user", err)
	}
}

// The lock over TLS, with the files read at each dial.
func TestC32_RedisTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue(t, "redis", serverName)
	ports, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	server, err := proc.Start(proc.Spec{
		Path: "redis-server",
		Args: []string{
			"--port", "0", "--tls-port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--save", "", "--dir", ca.dir,
			"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca.file,
		},
		Output: ca.dir + "/redis.log",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	url := fmt.Sprintf("rediss://127.0.0.1:%d", ports[0])
	good := []string{"--redis-tls-ca", ca.file, "--redis-tls-server-name", serverName}
	clientCert := []string{"--redis-tls-cert", cert, "--redis-tls-key", key}
	waitFor(t, "the lock is held over TLS", func() bool {
		return locked(t, url, append(good, clientCert...)...) == nil
	})
	for name, flags := range map[string][]string{
		"system's authorities": nil, "no client certificate": good, "no server name": append(good[:2:2], clientCert...),
	} {
		if err := locked(t, url, flags...); !errors.Is(err, compensator.ErrLockUnavailable) {
			t.Errorf("%s: %v, want no lock", name, err)
		}
	}
}

// locked takes and releases the lock of these flags once.
func locked(t *testing.T, url string, args ...string) error {
	t.Helper()
	var o redisOptions
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.bind(fs)
	if err := fs.Parse(append([]string{"--redis", url, "--lock-pause"}, args...)); err != nil {
		t.Fatal(err)
	}
	locker, closeLocker, err := o.locker(&app{secrets: &redactor{}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer closeLocker()
	return locker.Do(t.Context(), "test", func(context.Context, func() bool) error { return nil })
}
