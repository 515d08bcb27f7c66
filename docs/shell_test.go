package docs_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell is one bash in which a page's commands run, so that variables and jobs last.
type shell struct {
	t      *testing.T
	folder string
	swaps  map[string]string // what the commands have, and what runs instead
	used   map[string]bool   // which of them were met
	in     io.Writer
	out    *bufio.Reader
}

// shellPatience bounds one command, and how long an output may take to appear.
const shellPatience = 3 * time.Minute

func newShell(t *testing.T, folder string, swaps map[string]string) *shell {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	bash := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc")
	bash.Dir = folder
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its jobs end with it
	in, err := bash.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	bash.Stdout, bash.Stderr = w, w
	if err := bash.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-bash.Process.Pid, syscall.SIGKILL)
		_ = bash.Wait()
		_, _ = w.Close(), out.Close()
	})
	s := &shell{t: t, folder: folder, swaps: swaps, used: map[string]bool{}, in: in, out: bufio.NewReader(out)}
	for from := range swaps {
		s.used[from] = false
	}
	return s
}

// run returns what a command prints on both outputs, and its exit status.
func (s *shell) run(command string) (output string, status int) {
	s.t.Helper()
	for from, to := range s.swaps {
		if strings.Contains(command, from) {
			command, s.used[from] = strings.ReplaceAll(command, from, to), true
		}
	}
	const mark = "\x01"
	late := time.AfterFunc(shellPatience, func() { panic("no end of: " + command) })
	defer late.Stop()
	if _, err := fmt.Fprintf(s.in, "%s\nprintf '%s%%d\\n' $?\n", command, mark); err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	var all strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%s: the shell ended: %v\n%s", command, err, &all)
		}
		text, end, found := strings.Cut(line, mark)
		all.WriteString(text)
		if found {
			status, err := strconv.Atoi(strings.TrimSpace(end))
			if err != nil {
				s.t.Fatalf("%s: %v", command, err)
			}
			return all.String(), status
		}
	}
}

// console runs the commands of a block and returns the block as it should be printed. A
// block that says until is run again until it prints what the page shows.
func (s *shell) console(b block) string {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		var got strings.Builder
		for line := range strings.Lines(b.text) {
			if command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ "); ok {
				out, _ := s.run(command)
				got.WriteString(line + out)
			}
		}
		text := got.String()
		if b.kind == "console" || plain(text) == plain(b.text) || time.Now().After(deadline) {
			return text
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// block is a fenced block of a page. A Go block whose paragraph before names a file is that
// file.
type block struct{ kind, file, text string }

var (
	fence  = regexp.MustCompile("(?s)\n([^\n]*)\n\n?```([a-z ]+)\n(.*?)```\n")
	goFile = regexp.MustCompile("`([a-z/_]+\\.go)`:$")
)

func blocks(page string) []block {
	var all []block
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		b := block{kind: m[2], text: m[3]}
		if name := goFile.FindStringSubmatch(m[1]); name != nil {
			b.file = name[1]
		}
		all = append(all, b)
	}
	return all
}

// changing is what differs from run to run: ids, times, lengths of time, and the width of
// columns.
var changing = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`), "LONG"},
	{regexp.MustCompile(`\b(in LONG|now)\b`), "WHEN"},
	{regexp.MustCompile(`(applied +\S+\n)+`), "applied MIGRATIONS\n"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(` \n`), "\n"},
}

// plain is what a block says, without what changes; the lines of a command's output are
// sorted, since goroutines log beside each other.
func plain(text string) string {
	text = tidy(text)
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.word)
	}
	var parts []string
	for part := range strings.SplitSeq(text, "$ ") {
		lines := strings.SplitAfter(part, "\n")
		slices.Sort(lines[1:])
		parts = append(parts, strings.Join(lines, ""))
	}
	return strings.Join(parts, "$ ")
}

// tidy puts the reader's names in place of the test's own.
func tidy(text string) string {
	text = regexp.MustCompile(`transmsg-test-[a-z0-9]+`).ReplaceAllString(text, "/")
	return regexp.MustCompile(`instance=\S+`).ReplaceAllString(text, "instance=orders-1")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
