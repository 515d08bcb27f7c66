#!/usr/bin/env bash
# Makes sure that the servers answer on loopback: RabbitMQ with management (5672, 15672), MariaDB or MySQL (3306),
# PostgreSQL (5432), Redis (6379). Run it as often as you like; when all answer it changes nothing and ends at once.
#
# What already runs is used as it is. The one exception: rabbitmq_management is enabled on a node that lacks it.
# Else Debian/Ubuntu packages are installed and started (as root, or through sudo), with the accounts that the tests
# use: guest/guest; root without a password over TCP; postgres trusted on loopback and on its socket. Only a server
# whose package this script has itself installed is given those accounts. Else containers, where an engine answers.
# Else it says what to install and exits 1.
set -euo pipefail
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly wait_seconds=60 # for a server that was just started; a cold RabbitMQ takes ten to twenty

usage() {
  cat <<'USAGE'
usage: services.sh [rabbitmq] [mariadb] [postgres] [redis]

Makes sure that the named servers (all four without a name) answer on 127.0.0.1.
Exit status: 0 all answer, 1 one does not (the last lines say what to do), 2 usage.
USAGE
}

port_of() {
  case $1 in
    rabbitmq) echo 5672 ;;
    mariadb) echo 3306 ;;
    postgres) echo 5432 ;;
    redis) echo 6379 ;;
  esac
}

package_of() {
  case $1 in
    rabbitmq) echo rabbitmq-server ;;
    mariadb) echo mariadb-server ;;
    postgres) echo postgresql ;;
    redis) echo redis-server ;;
  esac
}

# server_command is the command that a server's package brings.
server_command() {
  case $1 in
    rabbitmq) echo rabbitmq-server ;;
    mariadb) if have mariadbd; then echo mariadbd; else echo mysqld; fi ;;
    postgres) echo pg_ctlcluster ;;
    redis) echo redis-server ;;
  esac
}

# wait_for polls the check $2 of server $1 until it holds or $3 seconds are over.
wait_for() {
  local deadline=$((SECONDS + $3))
  until "$2"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.2
  done
}

# enable_management gives a running node its HTTP API, on loopback only until the node's next start; from then on
# the node's own configuration decides where the API listens.
enable_management() {
  if ! have rabbitmq-plugins || ! can_be_root; then
    say "RabbitMQ answers on 5672 but its management API does not on 15672 as guest/guest; enable it on the node:"
    say "  rabbitmq-plugins enable rabbitmq_management"
    return 1
  fi
  say "rabbitmq: enabling rabbitmq_management on the node that runs here, on 127.0.0.1:15672"
  as_root rabbitmqctl -q eval 'application:set_env(rabbitmq_management, tcp_config,
    [{port, 15672}, {ip, "127.0.0.1"}], [{persistent, true}]).' >/dev/null
  as_root rabbitmq-plugins -q enable rabbitmq_management >&2
}

# prepare_rabbitmq keeps a node that was just installed on loopback, under a name that needs no resolver.
prepare_rabbitmq() {
  printf '%s\n' 'listeners.tcp.local = 127.0.0.1:5672' 'management.tcp.ip = 127.0.0.1' 'management.tcp.port = 15672' |
    as_root tee /etc/rabbitmq/rabbitmq.conf >/dev/null
  printf '%s\n' 'NODENAME=rabbit@localhost' 'export ERL_EPMD_ADDRESS=127.0.0.1' \
    'export ERL_FLAGS="-kernel inet_dist_use_interface {127,0,0,1}"' | as_root tee -a /etc/rabbitmq/rabbitmq-env.conf >/dev/null
  as_root rabbitmq-plugins -q --offline enable rabbitmq_management >&2
}

prepare_postgres() {
  local hba
  for hba in /etc/postgresql/*/main/pg_hba.conf; do
    as_root sed -i '1i local all postgres trust\nhost all postgres 127.0.0.1/32 trust' "$hba"
  done
}

# finish_mariadb lets root in over TCP; it runs through the socket, where root of the machine is root of the server.
finish_mariadb() {
  local sql="CREATE USER IF NOT EXISTS root@localhost; ALTER USER root@localhost IDENTIFIED VIA mysql_native_password
      USING '' OR unix_socket; GRANT ALL ON *.* TO root@localhost WITH GRANT OPTION"
  if ! have mariadb; then
    sql="ALTER USER root@localhost IDENTIFIED WITH caching_sha2_password BY ''"
  fi
  as_root "$(if have mariadb; then echo mariadb; else echo mysql; fi)" -e "$sql" >&2
}

socket_ready() { port_open 3306; }

# start_packaged starts a server whose package is installed: by systemd where it runs, else by the package's own
# means. The output goes to the server's own log.
start_packaged() {
  local unit
  unit=$(package_of "$1")
  [[ $unit == mariadb-server ]] && { if have mariadbd; then unit=mariadb; else unit=mysql; fi; }
  if [[ -d /run/systemd/system ]]; then
    as_root systemctl start "$unit" >&2
    return
  fi
  case $1 in
    rabbitmq) as_root rabbitmq-server -detached >&2 ;;
    mariadb)
      as_root install -d -o mysql -g mysql -m 755 /run/mysqld
      as_root start-stop-daemon --start --oknodo --background --exec "$(command -v "$(server_command mariadb)")" \
        -- --user=mysql
      ;;
    postgres) start_postgres ;;
    redis)
      as_root redis-server --daemonize yes --bind 127.0.0.1 --port 6379 --save '' --appendonly no --dir /tmp >&2
      ;;
  esac
}

# start_postgres starts the cluster that is configured for 5432.
start_postgres() {
  local version cluster port rest
  while read -r version cluster port rest; do
    if [[ $port == 5432 ]]; then
      as_root pg_ctlcluster --skip-systemctl-redirect "$version" "$cluster" start >&2
      return
    fi
  done < <(pg_lsclusters -h)
  say "postgres: no cluster is configured for port 5432 (pg_lsclusters lists them): pg_createcluster VERSION main"
  return 1
}

# from_packages starts server $1 from its package, installing that first where it is missing.
from_packages() {
  local fresh=""
  if ! have "$(server_command "$1")"; then
    apt_install "$(package_of "$1")" || return 1
    fresh=yes
    if declare -F "prepare_$1" >/dev/null; then "prepare_$1" || return 1; fi
  fi
  say "$1: starting $(server_command "$1")"
  start_packaged "$1" || return 1
  if [[ -n $fresh && $1 == mariadb ]]; then
    wait_for mariadb socket_ready "$wait_seconds" && finish_mariadb || return 1
  fi
  if [[ $1 == rabbitmq ]]; then
    # A first start that was too slow for Erlang's own limits ends in a crash dump; the second finds a warm disk.
    wait_for rabbitmq rabbitmq_amqp_answers "$wait_seconds" ||
      { say "rabbitmq: starting it once more" && start_packaged rabbitmq; } || return 1
    wait_for rabbitmq rabbitmq_amqp_answers "$wait_seconds" || return 1
    rabbitmq_management_answers || wait_for rabbitmq rabbitmq_management_answers 5 || enable_management || return 1
  fi
  wait_for "$1" "$1_answers" "$wait_seconds"
}

# container_engine prints the engine that answers; an installed client without a running engine does not count.
container_engine() {
  local engine
  for engine in docker podman; do
    if have "$engine" && bounded 10 "$engine" info >/dev/null 2>&1; then
      echo "$engine"
      return
    fi
  done
  return 1
}

# from_container starts server $1 in a container named transmsg-$1, published on loopback only.
from_container() {
  local engine=$1 args=()
  case $2 in
    rabbitmq) args=(-p 127.0.0.1:5672:5672 -p 127.0.0.1:15672:15672 docker.io/library/rabbitmq:4-management) ;;
    mariadb) args=(-p 127.0.0.1:3306:3306 -e MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=1 docker.io/library/mariadb:10.11) ;;
    postgres) args=(-p 127.0.0.1:5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust docker.io/library/postgres:15) ;;
    redis) args=(-p 127.0.0.1:6379:6379 docker.io/library/redis:7) ;;
  esac
  say "$2: starting container transmsg-$2 with $engine"
  "$engine" start "transmsg-$2" >/dev/null 2>&1 ||
    "$engine" run -d --name "transmsg-$2" "${args[@]}" >&2 || return 1
  wait_for "$2" "$2_answers" "$wait_seconds"
}

# refused explains a server that listens but does not let the tests in; it is somebody's, so nothing is changed.
refused() {
  say "$1: something listens on 127.0.0.1:$(port_of "$1") but does not answer as the tests need it."
  case $1 in
    rabbitmq) say "  wanted: AMQP 0-9-1 on 5672, management on 15672, both for guest/guest" ;;
    mariadb)
      say "  wanted: root logs in over TCP with an empty password. On a server that is for tests only, as its root:"
      say "  mariadb -e \"ALTER USER root@localhost IDENTIFIED VIA mysql_native_password USING '' OR unix_socket\""
      ;;
    postgres)
      say "  wanted: user postgres without a password. First line of pg_hba.conf, then reload:"
      say "  host all postgres 127.0.0.1/32 trust"
      ;;
    redis) say "  wanted: PING answered without a password" ;;
  esac
}

# to_install says what a person has to install where the script cannot.
to_install() {
  say "$1: nothing answers on 127.0.0.1:$(port_of "$1"), and it can be started here neither from a package (apt-get as"
  say "  root or with sudo) nor in a container (no docker or podman engine answers). Install and start it yourself:"
  if have brew || [[ $(uname -s) == Darwin ]]; then
    local formula=$1
    [[ $1 == postgres ]] && formula=postgresql@15
    say "  brew install $formula && brew services start $formula"
  else
    say "  $(package_of "$1") (the name of the Debian/Ubuntu package), or any container engine"
  fi
}

# running answers for what already listens: 0 it is fine, 1 nothing is there, 2 it is there and refuses. A server
# that is still starting is given ten seconds.
running() {
  "$1_answers" && return
  port_open "$(port_of "$1")" || return 1
  if [[ $1 == rabbitmq ]] && wait_for rabbitmq rabbitmq_amqp_answers 10 && ! rabbitmq_management_answers; then
    enable_management || return 2
  fi
  wait_for "$1" "$1_answers" 10 || return 2
}

ensure() {
  local status=0 engine
  running "$1" || status=$?
  case $status in
    0) ;;
    1)
      if have "$(server_command "$1")" && can_be_root || debian_like; then
        from_packages "$1" || { say_not_started "$1" && return 1; }
      elif engine=$(container_engine); then
        from_container "$engine" "$1" || { say_not_started "$1" && return 1; }
      else
        to_install "$1"
        return 1
      fi
      ;;
    *) refused "$1" && return 1 ;;
  esac
  say "$1 answers on 127.0.0.1:$(port_of "$1")"
}

say_not_started() {
  if port_open "$(port_of "$1")"; then
    refused "$1"
  else
    say "$1: was started, but does not answer on 127.0.0.1:$(port_of "$1") after ${wait_seconds} s; see its log"
  fi
}

main() {
  local name failed=0
  [[ ${1-} == -h || ${1-} == --help ]] && { usage && return 0; }
  (($#)) || set -- rabbitmq mariadb postgres redis
  for name in "$@"; do
    [[ $name =~ ^(rabbitmq|mariadb|postgres|redis)$ ]] || { say "unknown server: $name" && usage >&2 && return 2; }
  done
  for name in "$@"; do
    ensure "$name" || failed=1
  done
  return "$failed"
}

main "$@"
