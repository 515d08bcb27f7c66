#!/usr/bin/env bash
# Servers of other versions than this machine's, for tests: each from the packages of another Debian suite, in a root
# of its own (debootstrap, chroot), on loopback ports of its own, under the root's own users. Roots lie outside the
# repository (TRANSMSG_ENGINES_DIR, else transmsg-engines in XDG_CACHE_HOME or /var/cache). Needs root.
set -euo pipefail
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/engines/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/engines/root.sh"
# shellcheck source=scripts/engines/servers.sh
source "$(dirname "${BASH_SOURCE[0]}")/engines/servers.sh"

readonly wait_seconds=120

usage() {
  cat <<USAGE
usage: engines.sh list                 the engines: exact version where set up, port, whether it runs
       engines.sh NAME                 set up and start; prints what env prints
       engines.sh setup|start|stop NAME...
       engines.sh kind NAME            rabbitmq, mysql, postgres or redis
       engines.sh env NAME...          the variables by which tests find it
       engines.sh with NAME[,NAME...] COMMAND...   starts them and runs a command with these variables; private servers
                                       of tests are then of these versions too
       engines.sh exec NAME COMMAND... runs a command in its root as its user (rabbitmqctl, mysql, psql)
       engines.sh remove NAME...|--all stops it and removes its data; its suite's root too when no engine is left in it

names: $(engine_table | awk '{printf "%s ", $1}')
Exit status: 0 done, 1 it failed (the last lines say why), 2 usage.
example: env \$(scripts/engines.sh mysql-9) go test ./store/gormstore/
USAGE
}

running_pids() { processes_in "$suite" "$engine"; }

setup() {
  need_root_tools
  install -d -m 755 "$(engines_dir)"
  exec {lock}>"$(engines_dir)/.lock-$suite" # Two at once would make one root.
  flock "$lock"
  make_root "$suite"
  install_in_root "$suite" "$package"
  if [[ ! -e $root$home/.prepared ]]; then
    prepare_engine
    touch "$root$home/.prepared"
  fi
  exec {lock}>&-
}

# start leaves a running engine as it is. The server's own file of messages is log in its folder.
start() {
  setup
  if [[ -n $(running_pids) ]]; then
    wait_until_answers
    return
  fi
  port_open "$port" && die "$engine: something else listens on 127.0.0.1:$port"
  local words
  mapfile -t words < <(server_command)
  { close_inherited && as_engine "${words[@]}"; } </dev/null >>"$root$home/log" 2>&1 &
  server=$!
  disown
  wait_until_answers
}

# close_inherited closes what this process was given beyond its three streams: a server that kept a lock of the caller's
# open (flock COMMAND...) would hold it for as long as it runs.
close_inherited() {
  local fd
  for fd in /proc/"$BASHPID"/fd/*; do
    fd=${fd##*/}
    ((fd <= 2)) || eval "exec $fd>&-"
  done
}

wait_until_answers() {
  local deadline=$((SECONDS + wait_seconds))
  until engine_answers; do
    if ((SECONDS >= deadline)) || { [[ -n ${server-} ]] && ! kill -0 "$server" 2>/dev/null; }; then
      tail -n 5 "$root$home/log" >&2
      stop
      die "$engine: does not answer on 127.0.0.1:$port; see $root$home/log"
    fi
    sleep 0.2
  done
  server=""
  say "$engine answers on 127.0.0.1:$port ($package $(package_version "$suite" "$package"))"
}

# stop ends the engine's processes by their ids: kindly first, since a server that is killed has to recover.
stop() {
  local signal deadline pids
  for signal in TERM KILL; do
    mapfile -t pids < <(running_pids)
    ((${#pids[@]})) || return 0
    kill "-$signal" "${pids[@]}" 2>/dev/null || true
    deadline=$((SECONDS + 30))
    while [[ -n $(running_pids) ]] && ((SECONDS < deadline)); do sleep 0.2; done
  done
  [[ -z $(running_pids) ]] || die "$engine: processes $(running_pids | xargs) do not end"
}

# remove takes the engine's data away, and the root with the last engine in it.
remove() {
  stop
  rm -rf "${root:?}$home" "$root$home.log"
  compgen -G "$root/srv/*" >/dev/null && return
  [[ -z $(processes_in "$suite") ]] || die "processes $(processes_in "$suite" | xargs) still run in $root"
  empty_root "$suite"
  rm -f "$root.log" "$(engines_dir)/.lock-$suite"
  rmdir "$(engines_dir)" 2>/dev/null || true
}

# with runs a command for which the shared servers and the private ones are those of the engines named in $1. Their
# roots get this machine's temporary folder and processes, in a mount namespace that ends with the command.
with() {
  local name names variables=() roots=()
  IFS=, read -ra names <<<"$1"
  shift
  for name in "${names[@]}"; do load_engine "$name"; done
  for name in "${names[@]}"; do
    load_engine "$name"
    start
    mapfile -t -O "${#variables[@]}" variables < <(addresses && root_variable)
    roots+=("$root")
  done
  install -d "${roots[@]/%/${TMPDIR:-/tmp}}"
  # shellcheck disable=SC2016 # the inner shell expands these
  exec unshare --mount --propagation private env "${variables[@]}" bash -c '
    for root in $1; do
      if mountpoint -q "$root/proc"; then continue; fi
      mount -t proc proc "$root/proc" && mount -t tmpfs tmpfs "$root/dev/shm" || exit 1
      mount --bind "${TMPDIR:-/tmp}" "$root${TMPDIR:-/tmp}" || exit 1
    done
    shift
    exec "$@"' with "${roots[*]}" "$@"
}

list() {
  local name state version
  printf '%-14s %-9s %-28s %-6s %s\n' NAME SUITE VERSION PORT STATE
  while read -r name _; do
    load_engine "$name"
    version=$(package_version "$suite" "$package")
    state=absent
    [[ ! -e $root$home/.prepared ]] || state=stopped
    [[ -z $(running_pids) ]] || state=running
    printf '%-14s %-9s %-28s %-6s %s\n' "$engine" "$suite" "${version:--}" "$port" "$state"
  done < <(engine_table)
}

main() {
  local verb=${1-} name
  case $verb in
    '' | -h | --help) usage && return 0 ;;
    list) list && return ;;
    setup | start | stop | env | kind | remove | exec | with) shift ;;
    *) load_engine "$verb" && start && addresses && return ;;
  esac
  (($#)) || { usage >&2 && return 2; }
  if [[ $verb == with ]]; then
    (($# > 1)) || { usage >&2 && return 2; }
    with "$@"
  fi
  if [[ $verb == exec ]]; then
    load_engine "$1"
    shift
    as_engine "$@"
    return
  fi
  [[ $verb == remove && $1 == --all ]] && mapfile -t names < <(engine_table | awk '{print $1}') && set -- "${names[@]}"
  for name in "$@"; do load_engine "$name"; done # All names first: nothing is done for a list with a wrong one.
  for name in "$@"; do
    load_engine "$name"
    case $verb in
      env) addresses ;;
      kind) echo "$kind" ;;
      *) "$verb" ;;
    esac
  done
}

main "$@"
