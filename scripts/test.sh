#!/usr/bin/env bash
# Checks everything on real servers: vet, lint, build, shellcheck, the Dockerfile's build steps, all tests with the
# race detector, and that nothing is left over. A step that fails does not stop the others; the last line names them.
#
# usage: test.sh [PACKAGE...]    (default ./...)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# shellcheck source=scripts/lib.sh
source scripts/lib.sh
# shellcheck source=scripts/leftovers.sh
source scripts/leftovers.sh

failed=()

# step runs a command under a title and notes its failure.
step() {
  local title=$1 begin=$SECONDS
  shift
  say "== $title"
  if "$@"; then
    say "== $title: ok ($((SECONDS - begin)) s)"
  else
    say "== $title: FAILED ($((SECONDS - begin)) s)"
    failed+=("$title")
  fi
}

# need_binaries makes sure that the tests can start private servers, and look at the shared ones, also where those
# run in containers.
need_binaries() {
  local packages=()
  have rabbitmq-server || packages+=(rabbitmq-server)
  have mariadbd || packages+=(mariadb-server)
  have redis-server || packages+=(redis-server)
  have psql || packages+=(postgresql-client)
  have shellcheck || packages+=(shellcheck)
  have python3 || packages+=(python3)
  have rsync || packages+=(rsync) # copies the state between Galera nodes
  have haproxy || packages+=(haproxy)
  have pgbouncer || packages+=(pgbouncer)
  # The race detector is linked by a C compiler.
  if ! have "$(go env CC)"; then packages+=(gcc libc6-dev); fi
  ((${#packages[@]})) || return 0
  debian_like || die "the tests need the programs of these Debian/Ubuntu packages: ${packages[*]}; install them"
  apt_install "${packages[@]}"
}

# load_modules loads what the module and its tests need, from all over the network, before anything is timed.
load_modules() { go mod download && (cd scripts/bench && go mod download); }

# lint waits for the linter's build, which began when the script did.
lint() {
  wait "$linter_build" || return 1
  "$(scripts/golangci-lint.sh --path)" run "$@"
}

# tests runs go test with a temp folder of the run's own, so that every leftover can be seen and named. Two packages
# at a time: the private servers are heavier than the tests. Four tests of a package at a time, whatever the machine:
# the longest wait for servers, and hold no processor meanwhile.
tests() { TMPDIR=$run_dir go test -race -shuffle=on -p 2 -parallel 4 -timeout 15m "$@"; }

# bench_module checks the comparison with peers, a module of its own so that its peers are nobody's dependencies.
bench_module() { (cd scripts/bench && go vet . && TMPDIR=$run_dir go test .); }

# nothing_left compares with the state before the run. Servers drop things a moment after they said so; ten seconds
# are given for that.
nothing_left() {
  local deadline=$((SECONDS + 10)) left
  while true; do
    left=$(
      comm -13 "$state_dir/before" <(left_on_servers)
      left_processes "$run_dir"
      left_files "$run_dir"
    )
    [[ -n $left ]] || return 0
    ((SECONDS < deadline)) || break
    sleep 0.5
  done
  say "left over by the tests:"
  say "$left"
  return 1
}

cleanup() {
  kill "$linter_build" 2>/dev/null || true
  rm -rf "$run_dir" "$state_dir"
}

say "== set-up: servers and programs that are missing are installed from packages, which can take minutes"
step "services" scripts/services.sh
((${#failed[@]} == 0)) || die "the servers do not answer"
step "programs" need_binaries
# Once and by itself: otherwise vet, lint and build each wait for it in silence, and vet's time says nothing.
step "modules" load_modules

# The path is short, because sockets lie below it, and may be entered by the users that private servers run as.
run_dir=$(mktemp -d /tmp/tmtest.XXXXXX)
state_dir=$(mktemp -d)
chmod 755 "$run_dir"
scripts/golangci-lint.sh --path >/dev/null &
linter_build=$!
trap cleanup EXIT
trap 'exit 130' INT TERM

(($#)) || set -- ./...
left_on_servers >"$state_dir/before"
step "go vet" go vet "$@"
step "go build" go build ./...
mapfile -d '' -t scripts < <(source_files '*.sh')
step "shellcheck" shellcheck -x -P . "${scripts[@]}" .ci/run
step "Dockerfile" scripts/dockerfile-check.sh
step "lint" lint "$@"
step "import graph" scripts/depguard-check.sh
step "go test" tests "$@"
step "bench module" bench_module
step "example" scripts/example.sh --orders 20
step "other version" scripts/other-version.sh
step "nothing left over" nothing_left

if ((${#failed[@]})); then
  printf -v list '%s, ' "${failed[@]}"
  die "failed: ${list%, }"
fi
say "test.sh: all steps passed"
