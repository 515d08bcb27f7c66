#!/usr/bin/env bash
# Runs short tests against one server of another version whose root engines.sh has set up on this machine, another one
# each day. Where there is none it says so and does nothing: matrix.sh is the whole of it.
#
# usage: other-version.sh [NAME]    (a name of engines.sh list, instead of the day's)
# Exit status: 0 passed or none is set up, 1 failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/lib.sh
source scripts/lib.sh

# arguments prints what go test runs for a kind of engine.
arguments() {
  case $1 in
    rabbitmq) echo './confirms/ -run ^(TestC01_|TestC03_|TestC04_|TestWindow|TestC30_)' ;;
    mysql) echo './store/gormstore/ -run ^(TestConformance|TestA2_|TestB1_|TestC36_|TestB4_) -skip /^(postgres|sqlite)' ;;
    postgres) echo './store/gormstore/ -run ^(TestConformance|TestA2_|TestB1_|TestC36_|TestB4_) -skip /^(mysql|sqlite)' ;;
    redis) echo './compensator/ -run Lock|Redis' ;;
  esac
}

# choose prints the day's engine of those that are set up and stopped: one that runs belongs to somebody.
choose() {
  local ready
  mapfile -t ready < <(scripts/engines.sh list | awk '$NF == "stopped" { print $1 }')
  ((${#ready[@]})) || return 0
  echo "${ready[$((10#$(date -u +%j) % ${#ready[@]}))]}"
}

main() {
  local name=${1-} words status=0
  if [[ $EUID -ne 0 ]]; then
    say "other version: not run, since engines.sh needs root"
    return
  fi
  [[ -n $name ]] || name=$(choose)
  if [[ -z $name ]]; then
    say "other version: none is set up here; scripts/engines.sh setup NAME does so"
    return
  fi
  read -ra words < <(arguments "$(scripts/engines.sh kind "$name")")
  say "other version: $name: go test ${words[*]}"
  scripts/engines.sh with "$name" go test -count=1 -parallel 8 -timeout 5m "${words[@]}" || status=1
  scripts/engines.sh stop "$name"
  return "$status"
}

main "$@"
