#!/usr/bin/env bash
# Runs the pinned golangci-lint, building it first where this clone has not done so. A cold build takes some three
# minutes on two cores; another clone on the same machine only links, from Go's build cache.
#
# usage: golangci-lint.sh ARGS...    e.g. run ./..., fmt
#        golangci-lint.sh --path     builds if needed and prints where the program is
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=v2.15.0
folder=$PWD/bin/golangci-lint-$version

build() {
  printf 'building golangci-lint %s (once a clone)\n' "$version" >&2
  local staging
  mkdir -p bin
  staging=$(mktemp -d bin/lint.XXXXXX)
  # Renamed when whole, so that an interrupted or a second build never leaves half a program.
  GOFLAGS='' GOBIN=$PWD/$staging go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version" >&2 ||
    { rm -rf "$staging" && return 1; }
  mkdir -p "$folder"
  mv -f "$staging/golangci-lint" "$folder/golangci-lint"
  rm -rf "$staging"
}

[[ -x $folder/golangci-lint ]] || build
if [[ ${1-} == --path ]]; then
  printf '%s\n' "$folder/golangci-lint"
else
  exec "$folder/golangci-lint" "$@"
fi
