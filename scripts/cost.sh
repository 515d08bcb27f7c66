#!/usr/bin/env bash
# Prints what a service pays for linking transmsg: the size of its program as built, the same without symbols, and the
# packages that it links. Three programs in turn: one that publishes without transmsg, the same with transmsg and the
# store of one dialect, and that with the stores of all dialects and the migrations. With --cold also the processor
# seconds of the first `go test`, with an empty build cache, and of the first `go test -race`.
#
# usage: cost.sh [--cold]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/lib.sh
source scripts/lib.sh

cold=${1-}
[[ $# -le 1 && $cold =~ ^(--cold)?$ ]] || die "usage: cost.sh [--cold]"
have go || die "Go is needed: https://go.dev/dl"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# size builds a program and prints its millions of bytes.
size() {
  go build -trimpath -o "$dir/program" "$@" || die "go build $*"
  wc -c <"$dir/program" | awk '{ printf "%.1f", $1 / 1e6 }'
}

# first prints the processor seconds of a first go test with these arguments.
first() {
  local TIMEFORMAT='%U %S'
  { time GOCACHE=$dir/cache go test "$@" >"$dir/log" 2>&1; } 2>"$dir/time" || die "go test $*: $(<"$dir/log")"
  rm -rf "$dir/cache"
  awk '{ printf "%.0f", $1 + $2 }' "$dir/time"
}

# row prints the figures of one program; the arguments are a title and what go build takes.
row() {
  local title=$1 built bare packages test="" race=""
  shift
  # One by one: a failure in an argument of printf would not end the script.
  built=$(size "$@")
  bare=$(size -ldflags '-s -w' "$@")
  packages=$(go list -deps "$@" | wc -l)
  if [[ $cold ]]; then
    test=" $(first "$@") |"
    race=" $(first -race "$@") |"
  fi
  printf '| %s | %s | %s | %s |%s%s\n' "$title" "$built" "$bare" "$packages" "$test" "$race"
}

printf '| program | MB | MB without symbols | packages |%s\n' "${cold:+ first test, CPU s | with -race |}"
printf '|---|---|---|---|%s\n' "${cold:+---|---|}"
row 'without transmsg' ./testdata/plain
row 'with transmsg, one dialect' ./testdata/service
row 'with transmsg, all dialects and the migrations' -tags all ./testdata/service
