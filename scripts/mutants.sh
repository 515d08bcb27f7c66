#!/usr/bin/env bash
# Puts faults into the code on purpose, one at a time, and runs for each the check or test that must notice it. It
# prints a line each: the fault, by what it must be noticed, killed, SURVIVED, stale or ERROR, and seconds. The tree
# stays as it is: "go build -overlay" puts the changed file in the place of the real one. It is no part of CI, and
# takes an hour or so. Names are as --list prints them, or the beginning of some, such as "settle/".
#
# usage: mutants.sh [--list] [--no-baseline] [NAME...]
# Exit status: 0 all were noticed, 1 not so, 2 usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in
  *" --list "* | *" -h "* | *" --help "*) ;;
  *) scripts/services.sh >&2 ;;
esac
# Built rather than "go run", which turns every exit status into 1.
mkdir -p bin
go build -o bin/mutants ./scripts/mutants >&2
exec bin/mutants "$@"
