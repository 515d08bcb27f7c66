package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Root is a folder with a whole system in it, whose programs run with that folder as their
// root; "" is this machine itself. The temporary folder must be the same one inside and
// outside, by a mount: `scripts/engines.sh with` does that.
type Root string

// errNoProgram is returned when a program is in none of the usual folders.
var errNoProgram = errors.New("not installed")

// Find returns the path of a program inside the root. The sbin folders count: a plain
// user's PATH often lacks them.
func (r Root) Find(name string) (string, error) {
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(filepath.Join(string(r), path)); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	if r == "" {
		return exec.LookPath(name)
	}
	return "", fmt.Errorf("%s: %w in %s", name, errNoProgram, r)
}

// Glob returns the last path inside the root that matches, which is the newest version
// where the names differ by that; "" when there is none.
func (r Root) Glob(pattern string) (string, error) {
	found, err := filepath.Glob(string(r) + pattern)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return strings.TrimPrefix(found[len(found)-1], string(r)), nil
}

// Command is exec.CommandContext for a path inside the root.
func (r Root) Command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	if r != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: string(r)}
	}
	return cmd
}

// User returns the ids of a user as the root's own list of users has them.
func (r Root) User(name string) (*syscall.Credential, error) {
	f, err := os.Open(string(r) + "/etc/passwd")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field := strings.Split(lines.Text(), ":")
		if len(field) < 4 || field[0] != name {
			continue
		}
		uid, err := strconv.ParseUint(field[2], 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(field[3], 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.Join(lines.Err(), fmt.Errorf("user %s: %w", name, fs.ErrNotExist))
}
