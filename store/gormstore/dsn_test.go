package gormstore_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/store/gormstore"
)

// secret is what no error may contain.
const secret = "hunter2"

func TestOpenErrorsNameTheServerAndNoSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ dsn, want string }{
		"empty":                  {"", "dsn is empty"},
		"unknown scheme":         {"oracle://app:" + secret + "@h/db", "no known form"},
		"no form at all":         {secret, "no known form"},
		"mysql refused":          {"mysql://app:" + secret + "@127.0.0.1:1/db", "mysql 127.0.0.1:1/db"},
		"mysql driver form":      {"app:" + secret + "@tcp(127.0.0.1:1)/db", "mysql 127.0.0.1:1/db"},
		"mysql driver form bad":  {"app:" + secret + "@tcp(127.0.0.1:1/db", "not of the form"},
		"mysql unknown network":  {"app:" + secret + "@" + secret + "(h)/db", "not of the form"},
		"mysql slash in secret":  {"mysql://app:/" + secret + "@127.0.0.1:1/db", "percent-encode"},
		"mysql hash in secret":   {"mysql://app:#" + secret + "@127.0.0.1:1/db", "percent-encode"},
		"mysql ? in secret":      {"mysql://app:1?" + secret + "@127.0.0.1:1/db", "percent-encode"},
		"mysql bad escape":       {"mysql://app:%zz" + secret + "@127.0.0.1:1/db", "percent-encode"},
		"mysql no database":      {"mysql://app:" + secret + "@127.0.0.1:1/", "names no database"},
		"mysql bad parameter":    {"mysql://app:" + secret + "@127.0.0.1:1/db?timeout=soon", "parameters"},
		"postgres refused":       {"postgres://app:" + secret + "@127.0.0.1:1/db", "postgres 127.0.0.1:1/db"},
		"postgres bad parameter": {"postgres://app:" + secret + "@127.0.0.1:1/db?sslmode=maybe", "sslmode"},
		"postgres bad escape":    {"postgres://app:%zz" + secret + "@127.0.0.1:1/db", "percent-encode"},
		"postgres slash":         {"postgres://app:/" + secret + "@127.0.0.1:1/db", "percent-encode"},
		"postgres no database":   {"postgres://app:" + secret + "@127.0.0.1:1/", "names no database"},
		"sqlite no path":         {"sqlite:", "path"},
		"sqlite no folder":       {"sqlite:/no/such/folder/x.db", "/no/such/folder/x.db"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		s, err := anystore.Open(ctx, c.dsn, gormstore.Options{})
		cancel()
		switch {
		case err == nil:
			t.Errorf("%s: opened", name)
			_ = s.Close()
		case !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: got %q, want it to contain %q", name, err, c.want)
		case strings.Contains(err.Error(), secret):
			t.Errorf("%s: the error contains the secret: %q", name, err)
		case !strings.HasPrefix(err.Error(), "gormstore: open: "):
			t.Errorf("%s: got %q, want it to name the operation", name, err)
		}
	}
}

func TestOpenWithWrongPasswordHidesIt(t *testing.T) {
	t.Parallel()
	dsn := strings.Replace(dbtest.MySQL(t), "root@", "nobody:"+secret+"@", 1)
	_, err := anystore.Open(t.Context(), dsn, gormstore.Options{})
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("got %v, want access denied without the secret", err)
	}
}

func TestOpenAcceptsURLForm(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MySQL(t) // root@tcp(host:port)/name
	dsn = "mysql://" + strings.NewReplacer("@tcp(", "@", ")/", "/").Replace(dsn)
	s := migrated(t, dsn, gormstore.Options{})
	if s.Dialect() != "mysql" || s.MaxBody() < 1<<20 {
		t.Errorf("dialect %q, max body %d", s.Dialect(), s.MaxBody())
	}
}

func TestServerVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version      string
		major, minor int
		want         bool
	}{
		{"10.11.19-MariaDB-0+deb12u1", 10, 6, true},
		{"10.5.9-MariaDB", 10, 6, false},
		{"11.4.2-MariaDB", 10, 6, true},
		{"8.0.36", 8, 0, true},
		{"9.1.0", 8, 0, true},
		{"5.7.44-log", 8, 0, false},
		{"unknown", 8, 0, false},
	} {
		if got := gormstore.VersionAtLeast(c.version, c.major, c.minor); got != c.want {
			t.Errorf("%s at least %d.%d: got %t", c.version, c.major, c.minor, got)
		}
	}
}

func TestOptionsAreRefusedNotClamped(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]gormstore.Options{
		"Prefix":        {Prefix: "Bad-Prefix"},
		"MaxOpenConns":  {MaxOpenConns: -1},
		"InsertTimeout": {InsertTimeout: time.Millisecond},
	} {
		_, err := anystore.Open(t.Context(), "mysql://root@127.0.0.1:1/db", o)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want a refusal that names it", field, err)
		}
	}
}

// TestT5_UnixSockets opens stores over the sockets of the servers on this machine, in every
// form that names one.
func TestT5_UnixSockets(t *testing.T) {
	t.Parallel()
	my, pg := dbtest.MySQL(t), dbtest.Postgres(t)
	var socket, folder string
	ask := func(dsn, query string, to *string) {
		s := unchecked(t, dsn, gormstore.Options{})
		if err := s.Pool().QueryRowContext(t.Context(), query).Scan(to); err != nil {
			t.Fatal(err)
		}
	}
	ask(my, "SELECT @@socket", &socket)
	ask(pg, "SHOW unix_socket_directories", &folder)
	folder, _, _ = strings.Cut(folder, ",")
	socket, folder = os.Getenv(dbtest.EnvMySQLRoot)+socket, os.Getenv(dbtest.EnvPostgresRoot)+folder
	user, rest, _ := strings.Cut(my, "@")
	_, schema, _ := strings.Cut(rest, ")/")
	u, err := url.Parse(pg)
	if err != nil {
		t.Fatal(err)
	}
	for _, dsn := range []string{
		user + "@unix(" + socket + ")/" + schema,
		"mysql://" + user + "@unix(" + socket + ")/" + schema,
		"mysql://" + user + "@" + rest, // the driver's form behind mysql://
		"postgres://" + u.User.String() + "@" + u.Path + "?host=" + folder + "&port=" + u.Port(),
		"postgres://" + u.Path + "?host=" + folder + "&user=" + u.User.Username() + "&port=" + u.Port(),
	} {
		s, err := anystore.Open(t.Context(), dsn, gormstore.Options{SkipSchemaCheck: true})
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		if err := s.Ping(t.Context()); err != nil || s.Close() != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	for dsn, want := range map[string]string{
		"mysql://root:" + secret + "@/db?socket=/s":          "@unix(/PATH)/",
		"postgres://app:" + secret + "@/db":                  "?host=/FOLDER",
		"postgres:///db":                                     "?host=/FOLDER",
		"postgres://app:" + secret + "@%2Fvar%2Frun/db":      "?host=/FOLDER",
		"mysql://app:a%40" + secret + "@tcp(127.0.0.1:1)/db": "leave mysql:// out",
	} {
		_, err := anystore.Open(t.Context(), dsn, gormstore.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want it to name %q and no secret", dsn, err, want)
		}
	}
}
