# shellcheck shell=bash
# What a test run must not leave behind. Every list is sorted, one name a line, so that comm can compare two.
# The names that internal/amqptest, internal/dbtest, the benchmark and the demo give to what they create start like this:
readonly test_prefix='transmsg[-_](test|bench|demo)[-_]'

left_vhosts() {
  management_get '/api/vhosts?columns=name' | grep -oE "\"name\":\"${test_prefix}[^\"]*" |
    sed 's/^"name":"/virtual host /' || true
}

left_schemas() {
  local client=mariadb
  have mariadb || client=mysql
  "$client" -h127.0.0.1 -uroot -N -B -e 'SHOW DATABASES' | grep -E "^${test_prefix}" | sed 's/^/MariaDB schema /' || true
}

left_databases() {
  psql -h 127.0.0.1 -U postgres -d postgres -At -c "
      SELECT 'PostgreSQL database ' || datname FROM pg_database WHERE datname ~ '^${test_prefix}'
      UNION ALL SELECT 'PostgreSQL role ' || rolname FROM pg_roles WHERE rolname ~ '^${test_prefix}'"
}

# left_on_servers lists what is on the shared servers now.
left_on_servers() {
  {
    left_vhosts
    left_schemas
    left_databases
  } | sort
}

# left_processes lists processes that this run started and that still live: they carry the run's temp folder $1 in
# their environment or command line, or work in it. The Erlang port mapper is no leftover: one serves every node of
# the machine.
left_processes() {
  local dir pid
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    if [[ $pid != "$$" && $pid != "$BASHPID" ]] && belongs_to_run "$dir" "$1"; then
      printf 'process %s: %s\n' "$pid" "$(tr '\0' ' ' <"$dir/cmdline" 2>/dev/null | cut -c1-150)"
    fi
  done | grep -vE '^process [0-9]+: ([^ ]*/epmd |$)' || true
}

# belongs_to_run reads all of its input: grep -q would end early, and pipefail would take that for a failure.
belongs_to_run() {
  {
    tr '\0' '\n' <"$1/environ"
    tr '\0' ' ' <"$1/cmdline"
    readlink "$1/cwd"
  } 2>/dev/null | grep -F -- "$2" >/dev/null
}

# left_files lists what lies in the run's temp folder $1.
left_files() { find "$1" -mindepth 1 -maxdepth 1 -printf 'temp file %p\n'; }
