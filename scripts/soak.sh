#!/usr/bin/env bash
# Runs publishers, compensators and a consumer for long, without faults, at half of what this machine can do, and
# checks that memory, goroutines and the table stay flat and that nothing is lost or repeated. It writes the samples to
# FILE.csv and draws them in FILE.svg. The last line on stdout is one JSON object; all else goes to stderr.
#
# usage: soak.sh [--seconds N] [--store mysql|postgres|sqlite] [--samples FILE]    (default 1800 s, mysql, soak)
set -euo pipefail

seconds=1800 store=mysql samples=$PWD/soak
while (($#)); do
  case $1 in
    --seconds) seconds=$2 ;;
    --store) store=$2 ;;
    --samples) samples=$(realpath -m "$2") ;;
    *)
      sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
  esac
  shift 2
done
cd "$(dirname "${BASH_SOURCE[0]}")"

# Capacity: as fast as it goes for half a minute.
measured=$(./chaos.sh --only none --seconds 30 --rate 5000 --store "$store")
printf '%s\n' "$measured" >&2
published=$(grep -oE '"published":[0-9]+' <<<"$measured" | cut -d: -f2)
exec ./chaos.sh --only none --seconds "$seconds" --rate $((published / 30 / 2)) --store "$store" --samples "$samples"
