package proc_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/transmsg/transmsg/internal/proc"
)

// TestRootLooksInsideItself: programs and users are those of the root, and their paths are
// seen from inside.
func TestRootLooksInsideItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"usr/sbin/transmsg-server":     "#!/bin/sh\n",
		"usr/lib/server/9.1/bin/start": "", "usr/lib/server/9.2/bin/start": "",
		"etc/passwd": "root:x:0:0::/root:/bin/sh\nserver:x:4711:4712::/:/bin/false\n",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := proc.Root(dir)
	if path, err := root.Find("transmsg-server"); err != nil || path != "/usr/sbin/transmsg-server" {
		t.Errorf("found %q, %v", path, err)
	}
	if path, err := root.Find("sh"); err == nil {
		t.Errorf("found %q, which is this machine's", path)
	}
	if path, err := root.Glob("/usr/lib/server/*/bin/start"); err != nil || path != "/usr/lib/server/9.2/bin/start" {
		t.Errorf("the newest version: %q, %v", path, err)
	}
	if user, err := root.User("server"); err != nil || user.Uid != 4711 || user.Gid != 4712 {
		t.Errorf("user: %+v, %v", user, err)
	}
	if _, err := root.User("nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a user that is not in the root: %v", err)
	}
}
