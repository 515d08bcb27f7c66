#!/usr/bin/env bash
# Runs publishers, compensators and a counting consumer on private servers under a seeded plan of faults, and checks
# that nothing is lost. The last line on stdout is one JSON object; all else goes to stderr.
#
# usage: chaos.sh [--seed N] [--seconds N] [--store mysql|postgres|sqlite] [--summary FILE] [--plan] [--only KIND,...]
# Exit status: 0 passed, 1 a breach or a fault that did not bite, 2 usage. --help lists all flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# shellcheck source=scripts/lib.sh
source scripts/lib.sh

# The servers are private, so only their programs are needed.
packages=()
have rabbitmq-server || packages+=(rabbitmq-server)
have mariadbd || packages+=(mariadb-server)
have redis-server || packages+=(redis-server)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || packages+=(postgresql)
if ((${#packages[@]})); then
  debian_like || die "the programs of these Debian/Ubuntu packages are needed: ${packages[*]}; install them"
  apt_install "${packages[@]}" >&2
fi

# Built rather than "go run", which turns every exit status into 1.
mkdir -p bin
go build -o bin/chaos ./scripts/chaos >&2
exec bin/chaos "$@"
