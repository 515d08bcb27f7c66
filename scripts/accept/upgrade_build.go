package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// upgradeMigration is the newest migration: a build works on its own schema and the next.
const upgradeMigration = "store/gormstore/migrations/mysql/00006*"

// buildOld builds the binary of the schema before from the history: of the last commit
// before the migration that builds at all.
func buildOld(ctx context.Context, e *env) (binary, commit string, err error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", e.Root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	const unshallow = "the check builds the old binary from the history: git fetch --unshallow"
	added, err := git("log", "--diff-filter=A", "--format=%H", "--", upgradeMigration)
	if err != nil || added == "" {
		return "", "", fmt.Errorf("no commit of this clone added %s: %s (git: %w)", upgradeMigration, unshallow, err)
	}
	commits := strings.Fields(added)
	before, err := git("rev-list", "--max-count=20", commits[len(commits)-1]+"^", "--", "*.go", "go.mod")
	if err != nil || before == "" {
		return "", "", fmt.Errorf("no commit of this clone is older than %s: %s (git: %w)",
			upgradeMigration, unshallow, err)
	}
	for _, commit = range strings.Fields(before) {
		if binary, err = buildCommit(ctx, e, commit, git); err == nil {
			return binary, commit[:12], nil
		}
	}
	return "", "", err
}

// buildCommit builds transmsg as it was at a commit. The tree comes from an archive: a
// worktree would be noted in the repository.
func buildCommit(ctx context.Context, e *env, commit string, git func(...string) (string, error)) (string, error) {
	dir := filepath.Join(e.Dir, commit)
	binary := filepath.Join(e.Dir, "transmsg-"+commit)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if _, err := git("archive", "--output", dir+".tar", commit); err != nil {
		return "", fmt.Errorf("read the tree of %s: %w", commit, err)
	}
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, "tar", "-xf", dir+".tar", "-C", dir),
		exec.CommandContext(ctx, "go", "build", "-C", dir, "-o", binary, "./cmd/transmsg"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the old transmsg of %s: %w: %.2000s", commit, err, out)
		}
	}
	return binary, nil
}
