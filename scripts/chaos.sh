#!/usr/bin/env bash
# Runs publishers, compensators and a counting consumer on private servers under a seeded plan of faults, and checks
# that nothing is lost. The last line on stdout is one JSON object; all else goes to stderr.
#
# usage: chaos.sh [--seed N] [--seconds N] [--store mysql|postgres|sqlite] [--summary FILE] [--plan] [--only KIND,...]
#                 [--consumers|--cluster|--failover|--galera]
# --consumers has processes of package consumer handle one queue, with one effect for each message.
# --cluster needs root: it runs in a network namespace of its own, in which links between nodes can be dropped.
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
have ip || packages+=(iproute2)
have rsync || packages+=(rsync) # the state transfer of --galera
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || packages+=(postgresql)
if ((${#packages[@]})); then
  debian_like || die "the programs of these Debian/Ubuntu packages are needed: ${packages[*]}; install them"
  apt_install "${packages[@]}" >&2
fi

# Built rather than "go run", which turns every exit status into 1.
mkdir -p bin
go build -o bin/chaos ./scripts/chaos >&2
if [[ " $* " == *" --cluster "* && " $* " != *" --plan "* ]]; then
  [[ $EUID -eq 0 ]] || die "--cluster needs root, for a network namespace of its own"
  # Rules of routing are asked in order, and local addresses come first unless their rule is moved.
  # shellcheck disable=SC2016 # the inner shell expands these
  exec unshare --net sh -c 'ip link set lo up && ip rule add pref 100 lookup local && ip rule del pref 0 &&
    exec bin/chaos "$@"' chaos "$@"
fi
exec bin/chaos "$@"
