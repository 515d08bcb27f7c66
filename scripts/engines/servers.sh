# shellcheck shell=bash
# The engines: which package of which suite, on which ports, and how each is prepared, started and asked.
# An engine's files lie in /srv/NAME of its root. Everything listens on loopback alone.

# engine_table prints a line for each engine: name, suite, package, kind, port, and for RabbitMQ the port of the
# management API, of Erlang's port mapper and of its distribution (rabbitmqctl takes the fifty after it). None is a
# server's own default port, nor in the range that the machine gives to outgoing connections.
engine_table() {
  cat <<'TABLE'
rabbitmq-4.0  trixie   rabbitmq-server rabbitmq 5740 15740 4440 25740
rabbitmq-4.3  unstable rabbitmq-server rabbitmq 5743 15743 4443 25843
mariadb-11.8  trixie   mariadb-server  mysql    3318
mysql-9       unstable mysql-server    mysql    3309
postgres-17   trixie   postgresql-17   postgres 5417
postgres-18   unstable postgresql-18   postgres 5418
redis-8       trixie   redis-server    redis    6308
valkey-8      trixie   valkey-server   redis    6309
TABLE
}

# load_engine sets the variables of engine $1 from the table.
load_engine() {
  local line
  line=$(engine_table | awk -v name="$1" '$1 == name')
  [[ -n $line ]] || { say "unknown engine: $1" && usage >&2 && exit 2; }
  read -r engine suite package kind port management epmd distribution <<<"$line"
  root=$(root_of "$suite")
  home=/srv/$engine
  case $kind in
    rabbitmq) user=rabbitmq ;;
    mysql) user=mysql ;;
    postgres) user=postgres ;;
    redis) user=$(sed -n 's/-server$//p' <<<"$package") ;;
  esac
}

# addresses prints what tests and programs need to find the engine, for "export" or "env".
addresses() {
  case $kind in
    rabbitmq)
      echo "TRANSMSG_TEST_AMQP_URL=amqp://guest:guest@127.0.0.1:$port/"
      echo "TRANSMSG_TEST_AMQP_API_URL=http://127.0.0.1:$management"
      ;;
    mysql) echo "TRANSMSG_TEST_MYSQL_DSN=root@tcp(127.0.0.1:$port)/" ;;
    postgres) echo "TRANSMSG_TEST_POSTGRES_DSN=postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable" ;;
    redis) echo "TRANSMSG_TEST_REDIS_ADDR=127.0.0.1:$port" ;;
  esac
}

# root_variable prints the variable by which tests find the programs of private servers.
root_variable() {
  case $kind in
    rabbitmq) echo "TRANSMSG_TEST_AMQP_ROOT=$root" ;;
    *) echo "TRANSMSG_TEST_${kind^^}_ROOT=$root" ;;
  esac
}

# as_engine runs a command in the engine's root as its user, marked as the engine's.
as_engine() {
  local settings=("TRANSMSG_ENGINE=$engine" "HOME=$home")
  if [[ $kind == rabbitmq ]]; then mapfile -t -O 2 settings < <(rabbitmq_settings); fi
  in_root "$suite" env -C "$home" "${settings[@]}" setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

# rabbitmq_settings is the whole environment of the node and of rabbitmqctl: nothing that the machine's own node uses.
rabbitmq_settings() {
  cat <<SETTINGS
ERL_EPMD_ADDRESS=127.0.0.1
ERL_EPMD_PORT=$epmd
ERL_CRASH_DUMP_SECONDS=0
RABBITMQ_NODENAME=transmsg-${engine//./-}@localhost
RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
RABBITMQ_NODE_PORT=$port
RABBITMQ_DIST_PORT=$distribution
RABBITMQ_CTL_DIST_PORT_MIN=$((distribution + 1))
RABBITMQ_CTL_DIST_PORT_MAX=$((distribution + 50))
RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}
RABBITMQ_MNESIA_BASE=$home/data
RABBITMQ_LOG_BASE=$home/log
RABBITMQ_ENABLED_PLUGINS_FILE=$home/enabled_plugins
RABBITMQ_CONFIG_FILE=$home/rabbitmq.conf
RABBITMQ_CONF_ENV_FILE=/dev/null
RUNNING_UNDER_SYSTEMD=true
SETTINGS
}

# prepare_engine makes the engine's folder and its empty database, with the accounts that the tests use.
prepare_engine() {
  local log=$root$home.log
  rm -rf "${root:?}$home"
  in_root "$suite" install -d -o "$user" -g "$user" -m 750 "$home" "$home/data"
  case $kind in
    rabbitmq)
      printf '%s\n' 'log.console = true' 'log.file = false' 'disk_free_limit.absolute = 1MB' \
        'management.tcp.ip = 127.0.0.1' "management.tcp.port = $management" >"$root$home/rabbitmq.conf"
      echo '[rabbitmq_management].' >"$root$home/enabled_plugins"
      ;;
    mysql)
      if [[ $package == mariadb-server ]]; then
        as_engine mariadb-install-db --no-defaults --datadir="$home/data" --auth-root-authentication-method=normal \
          --skip-test-db
      else
        as_engine mysqld --no-defaults --initialize-insecure --datadir="$home/data"
      fi
      ;;
    postgres) as_engine "$(postgres_programs)/initdb" -D "$home/data" -U postgres --auth=trust --encoding=UTF8 ;;
  esac >"$log" 2>&1 || { tail -n 5 "$log" >&2 && die "$engine: could not be prepared; see $log"; }
}

postgres_programs() { echo "/usr/lib/postgresql/${package#postgresql-}/bin"; }

# server_command prints the words of the engine's server, one a line.
server_command() {
  case $kind in
    rabbitmq) printf '%s\n' "$(cd "$root" && echo usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server)" | sed 's,^,/,' ;;
    mysql)
      if [[ $package == mariadb-server ]]; then echo mariadbd; else printf '%s\n' mysqld --no-defaults --mysqlx=OFF; fi |
        sed 's/^mariadbd$/mariadbd\n--no-defaults/'
      printf '%s\n' "--datadir=$home/data" "--tmpdir=$home" "--port=$port" --bind-address=127.0.0.1 \
        "--socket=$home/socket" "--pid-file=$home/server.pid" --innodb-buffer-pool-size=256M
      ;;
    postgres)
      printf '%s\n' "$(postgres_programs)/postgres" -D "$home/data" -p "$port" -c listen_addresses=127.0.0.1 \
        -c "unix_socket_directories=$home"
      ;;
    redis)
      printf '%s\n' "$package" --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$home/data" --daemonize no
      ;;
  esac
}

# engine_answers tells whether the engine lets the tests in.
engine_answers() {
  case $kind in
    rabbitmq) rabbitmq_amqp_answers "$port" && management_get /api/whoami "$management" >/dev/null ;;
    mysql) mariadb_answers "$port" ;;
    postgres) postgres_answers "$port" ;;
    redis) redis_answers "$port" ;;
  esac
}
