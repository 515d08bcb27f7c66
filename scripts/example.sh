#!/usr/bin/env bash
# Runs the services of examples/ on this machine: orders are placed, the payment service is killed and started again,
# some orders cannot be paid and become dead letters, their cause is mended, and one replay finishes them.
#
# usage: example.sh [--orders N] [--store mysql|postgres]    (100 orders on mysql, which is MariaDB here)
# Exit status: 0 it ended with `lost 0`, 1 anything else, 2 usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/lib.sh
source scripts/lib.sh

usage() {
  sed -n 's/^# \(usage: .*\)/\1/p' scripts/example.sh >&2
  exit 2
}

orders=100 store=mysql
while (($#)); do
  case $1 in
    --orders) [[ ${2-} =~ ^[1-9][0-9]{1,4}$ ]] || usage && orders=$2 ;; # 10 to 99999
    --store) [[ ${2-} == mysql || ${2-} == postgres ]] || usage && store=$2 ;;
    *) usage ;;
  esac
  shift 2
done

# Names and files of this run; scripts/leftovers.sh knows the names.
readonly tag=$$ wait_seconds=90
readonly vhost=transmsg-demo-$tag database=transmsg_demo_$tag api=http://guest:guest@127.0.0.1:15672/api
declare -A pids=() ports=()

# on_database has the database server run a statement.
on_database() {
  if [[ $store == mysql ]]; then
    mariadb -h127.0.0.1 -uroot -e "$1"
  else
    psql -q -h 127.0.0.1 -U postgres -d postgres -c "$1"
  fi
}

cleanup() {
  local status=$? name
  for name in "${!pids[@]}"; do kill "${pids[$name]}" 2>/dev/null || true; done
  wait || true
  curl -sS -o "$dir/answer" -X DELETE "$api/vhosts/$vhost" || true
  on_database "DROP DATABASE IF EXISTS $database" 2>/dev/null || true
  if ((status)) && [[ -s $dir/log ]]; then
    say "the last lines of the services:"
    tail -n 20 "$dir/log" >&2
  fi
  rm -rf "$dir"
}

# show prints a command and runs it: what a reader would type.
show() {
  printf '$'
  printf ' %s' "${@/$PWD\//}"
  printf '\n'
  "$@"
}

# start runs a service beside this script; its settings are in the environment.
start() {
  local name=$1
  shift
  "$@" >>"$dir/log" 2>&1 &
  pids[$name]=$!
}

# free_port prints a port on which nothing answers.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)) && port_open "$port"; do :; done
  echo "$port"
}

# get prints the number that service $1 has under $3 at path $2; nothing while the service is away.
get() { curl -sS "http://127.0.0.1:${ports[$1]}$2" 2>/dev/null | grep -oP "\"$3\":\\K[0-9]+" || true; }

paid() { get orders /orders PAID; }

# letters prints how many dead letters have status $1.
letters() { "$transmsg" dead-letters list --store "$cli_store" --status "$1" --limit 10000 --json | wc -l; }

# until_true waits until a command succeeds; $1 says what for.
until_true() {
  local what=$1 deadline=$((SECONDS + wait_seconds))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || die "waited $wait_seconds s until $what"
    sleep 0.1
  done
}

answers() { [[ -n $(get "$@") ]]; }
some_paid() { (($(paid) >= $1)); }
all_ended() { (($(paid) + $(letters "$1") == orders)); }

start_payments() {
  LISTEN=127.0.0.1:${ports[payments]} PROVIDER=http://127.0.0.1:${ports[provider]} start payments "$bin/payments"
  until_true "the payment service answers" answers payments /payments payments
}

# place posts order $1, as a client does that gets no answer: again, until the order is there.
place() {
  local card=good
  if (($1 == orders)); then card=stolen; elif (($1 % 10 == 0)); then card=expired; fi
  placed() {
    local code
    code=$(curl -sS -o "$dir/answer" -w '%{http_code}' -d "{\"number\":\"$1\",\"amount\":1999,\"card\":\"$2\"}" \
      "http://127.0.0.1:${ports[orders]}/orders") && [[ $code == 201 || $code == 409 ]]
  }
  until_true "order $1 is placed" placed "$1" "$card"
}

have go || die "Go is needed: https://go.dev/dl"
server=mariadb
[[ $store == mysql ]] || server=postgres
scripts/services.sh rabbitmq "$server"
for program in curl rabbitmqadmin mariadb psql; do
  [[ $program == psql && $store == mysql || $program == mariadb && $store == postgres ]] || have "$program" ||
    die "$program is needed: install it"
done

bin=$PWD/bin/example transmsg=$PWD/bin/example/transmsg
mkdir -p "$bin"
go build -o "$bin/" ./cmd/transmsg ./examples/...
begin=$SECONDS
dir=$(mktemp -d)
trap cleanup EXIT
trap 'exit 130' INT TERM

say "== a broker and a database for this run"
for name in orders payments provider; do ports[$name]=$(free_port); done
on_database "CREATE DATABASE $database"
export DATABASE="root@tcp(127.0.0.1:3306)/$database" AMQP=amqp://guest:guest@127.0.0.1:5672/$vhost
cli_store=mysql://root@127.0.0.1:3306/$database
if [[ $store == postgres ]]; then
  DATABASE="postgres://postgres@127.0.0.1:5432/$database?sslmode=disable"
  cli_store=$DATABASE
fi
show "$transmsg" migrate up --store "$cli_store"
{ printf 'vhost: %s\n' "$vhost" && cat examples/topology.yaml; } >"$dir/shop.yaml"
export TRANSMSG=$transmsg
show scripts/topology/topology.sh apply "$dir/shop.yaml"

say "== the services: orders, payments, a provider that fails for 10 % of its calls, and the compensator"
LISTEN=127.0.0.1:${ports[provider]} FAIL_PERCENT=10 start provider "$bin/provider"
start compensator "$transmsg" compensator --store "$cli_store" --amqp "$AMQP" --collect dead-letters --http ''
until_true "the provider answers" answers provider /charges charges
LISTEN=127.0.0.1:${ports[orders]} start orders "$bin/orders"
until_true "the order service answers" answers orders /orders PAID
start_payments

say "== $orders orders; the payment service is killed when a quarter is paid, and started again"
for ((i = 1; i <= orders / 2; i++)); do place "$i"; done
until_true "a quarter is paid" some_paid $((orders / 4))
kill -9 "${pids[payments]}"
wait "${pids[payments]}" 2>/dev/null || true
for ((; i <= orders; i++)); do place "$i"; done
start_payments
until_true "each order is paid or a dead letter" all_ended OPEN
say "paid: $(paid), dead letters: $(letters OPEN)"
show "$transmsg" dead-letters groups --store "$cli_store"

say "== the cause is mended: expired cards are renewed; a stolen one stays what it is"
curl -sS -o "$dir/answer" -X POST "http://127.0.0.1:${ports[provider]}/mend"
show "$transmsg" dead-letters replay --store "$cli_store" --queue payments --reason 'cards are renewed' --yes
until_true "each order is paid, or its letter is parked" all_ended PARKED
show "$transmsg" dead-letters groups --store "$cli_store"

payments=$(get payments /payments payments) charges=$(get provider /charges charges)
twice=$((payments - $(get payments /payments orders) + charges - $(get provider /charges orders)))
lost=$((orders - $(paid) - $(letters PARKED)))
say "== the end, after $((SECONDS - begin)) s"
say "the provider failed $(get provider /charges failed_before) times before a charge, $(get provider /charges failed_after) times after it"
echo "orders $orders, paid $(paid), payments $payments, charges $charges, parked $(letters PARKED), twice $twice, lost $lost"
((lost == 0 && twice == 0 && payments == $(paid) && charges == payments && $(letters PARKED) == 1))
