#!/usr/bin/env bash
# Runs the tests that depend on a server on each other version that engines.sh has, and chaos, and prints a table with
# the exact versions: the one of docs/operate/versions.md. A cell says what passed, or names what failed or was skipped.
# Needs root, and about six minutes an engine.
#
# usage: matrix.sh [--seconds N] [NAME...]    (default: all names of engines.sh list; seconds of chaos, default 60)
# Exit status: 0 every cell passed, 1 one did not, 2 usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/lib.sh
source scripts/lib.sh

seconds=60
logs=$(mktemp -d "${TMPDIR:-/tmp}/transmsg-matrix.XXXXXX")
failed=0

usage() { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# cells prints what is run for a kind of engine: title, then the arguments of go test; the subtests of other databases
# are left out. Chaos comes last, for all.
cells() {
  local plans='TestC36|ReadOnly|ReadsOnly|ReadNoOthers|ReadTheIndexAlone|HopOverRows|ChangesNoRowsSize|IsReadCommitted'
  case $1 in
    rabbitmq)
      cat <<CELLS
confirms ./confirms/ ./internal/amqptest/
publisher -skip /^(postgres|sqlite) ./publisher/
compensator -skip /^(postgres|sqlite) ./compensator/
consumer ./consumer/
topology ./scripts/topology/
CELLS
      ;;
    mysql | postgres)
      local others='postgres|PostgreSQL|sqlite|SQLite'
      [[ $1 == mysql ]] || others='mysql|MySQL|sqlite|SQLite'
      cat <<CELLS
conformance -skip $plans|TestE2_|/^($others) ./store/... ./internal/dbtest/
claim-plan -run $plans -skip /^($others) ./store/...
publisher -skip /^($others) ./publisher/
compensator -skip /^($others) ./compensator/
grants -skip /^($others) ./docs/operate/
CELLS
      ;;
    redis)
      cat <<CELLS
compensator -run Lock|Redis|C2[0-9]_ -skip /^(postgres|sqlite) ./compensator/
grants -run Redis ./docs/operate/
CELLS
      ;;
  esac
}

# run_tests runs one cell and prints it: the number of tests, and the names of those that failed or were skipped.
run_tests() {
  local engine=$1 title=$2 log passed failing skipped
  shift 2
  log=$logs/$engine-$title.log
  scripts/engines.sh with "$engine" go test -count=1 -timeout 20m -v "$@" >"$log" 2>&1 || true
  passed=$(grep -cE '^--- PASS' "$log" || true)
  failing=$(sed -nE 's/^--- FAIL: ([^ ]+).*/\1/p' "$log" | sort -u | xargs)
  skipped=$(grep -A 1 -E '^ *--- SKIP' "$log" | sed -nE 's/^ +[a-z_]+\.go:[0-9]+: //p' | sort -u | paste -sd ';' || true)
  if [[ -z $failing ]] && { ((!passed)) || grep -qE '^(FAIL|panic:)' "$log"; }; then failing="no result, see $log"; fi
  if [[ -n $failing ]]; then
    echo "FAILED: $failing"
  else
    echo "$passed passed${skipped:+, skipped: $skipped}"
  fi
}

# run_chaos runs chaos with the engine in its place.
run_chaos() {
  local engine=$1 store=mysql log=$logs/$1-chaos.log line
  [[ $2 != postgres ]] || store=postgres
  if line=$(scripts/engines.sh with "$engine" bin/chaos --seed 1 --seconds "$seconds" --store "$store" --untimed 2>"$log"); then
    sed -E 's/.*"published":([0-9]+).*"lost":([0-9]+),"phantom":([0-9]+).*"unexplained":([0-9]+).*"faults":([0-9]+).*/\1 published, \5 faults, lost \2, phantom \3, unexplained \4/' <<<"$line"
  else
    echo "FAILED: $(sed -E 's/.*"breaches":\[(.{0,300}).*/\1/' <<<"$line"), see $log"
  fi
}

# row runs all cells of an engine and prints its line of the table.
row() {
  local name=$1 version=$2 kind=$3 title words text line=""
  while read -r title words; do
    say "matrix: $name: $title"
    # shellcheck disable=SC2086 # words are arguments
    text=$(set -f && run_tests "$name" "$title" $words)
    line+="$title: $text<br>"
    say "matrix: $name: $title: $text"
  done < <(cells "$kind")
  say "matrix: $name: chaos"
  text=$(run_chaos "$name" "$kind")
  say "matrix: $name: chaos: $text"
  line+="chaos: $text"
  [[ $line != *FAILED* ]] || failed=1
  table+="| \`$name\` | $version | $line |"$'\n'
}

main() {
  local table="" name version names=("$@") known
  known=$(scripts/engines.sh list | awk 'NR > 1 { print $1 }')
  ((${#names[@]})) || mapfile -t names <<<"$known"
  for name in "${names[@]}"; do
    grep -qx -- "$name" <<<"$known" || { say "unknown engine: $name" && usage >&2 && exit 2; }
  done
  mkdir -p bin
  go build -o bin/chaos ./scripts/chaos
  for name in "${names[@]}"; do
    scripts/engines.sh start "$name"
    version=$(scripts/engines.sh list | awk -v name="$name" '$1 == name { print $3 }')
    row "$name" "$version" "$(scripts/engines.sh kind "$name")"
    scripts/engines.sh stop "$name"
  done
  printf '| engine | package version | %s, Debian suites of that day |\n|---|---|---|\n%s' "$(date -u +%F)" "$table"
  ((failed)) || rm -rf "$logs"
  return "$failed"
}

while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --seconds) seconds=${2-} && shift 2 ;;
    -*) usage >&2 && exit 2 ;;
    *) break ;;
  esac
done
main "$@"
