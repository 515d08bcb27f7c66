# shellcheck shell=bash
# What the scripts share: messages, root, packages and the questions put to each server.
# The questions go over loopback TCP in the servers' own protocols, without a client program: a server in a
# container answers them like one from a package, and a port that merely accepts does not pass.

# say prints one line for the person watching. Never on stdout: that belongs to results.
say() { printf '%s\n' "$*" >&2; }

# die prints one line and ends the script with status 1.
die() {
  say "${0##*/}: $*"
  exit 1
}

# source_files prints the files of the source tree, each ended by NUL: what git knows or would add, or in an archive
# without .git all but what a build leaves there. Further arguments are patterns of file names.
source_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard "$@"
    return
  fi
  local names=() pattern
  for pattern in "${@:-*}"; do names+=(${names[0]:+-o} -name "$pattern"); done
  find . -path ./bin -prune -o -type f \( "${names[@]}" \) -printf '%P\0'
}

# have tells whether a command exists; the sbin folders count, since a plain user's PATH lacks them.
have() { PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }

# bounded runs a command for at most $1 seconds where the machine can do that.
bounded() {
  local seconds=$1
  shift
  if have timeout; then timeout "$seconds" "$@"; else "$@"; fi
}

# can_be_root tells whether as_root can work; sudo may ask for a password only on a terminal.
can_be_root() {
  [[ $EUID -eq 0 ]] && return 0
  have sudo || return 1
  sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]
}

as_root() {
  local PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

# debian_like tells whether packages can be installed here.
debian_like() { have apt-get && have dpkg && can_be_root; }

# apt_install installs packages without starting what they contain: the scripts start servers themselves, and a
# package whose server finds its port taken would fail to configure.
apt_install() {
  local policy=/usr/sbin/policy-rc.d ours="" status=0
  say "installing from Debian/Ubuntu packages: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 ||
    say "apt-get update did not succeed; going on with the package lists that are here"
  if [[ ! -e $policy ]]; then
    ours=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 || status=$?
  if [[ -n $ours ]]; then as_root rm -f "$policy"; fi
  return "$status"
}

# ask sends the printf format $2 to loopback port $1, waits for at most 3 s and prints the first $3 bytes of the
# answer as hexadecimal digits. The format carries any byte, also NUL, which a shell variable cannot hold.
ask() {
  # shellcheck disable=SC2016 # the inner shell expands these
  bounded 3 bash -c '
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf "$2" >&3
    head -c "$3" <&3 | od -An -v -tx1 | tr -d " \n"' ask "$1" "$2" "$3" 2>/dev/null
}

# port_open tells whether anything accepts on loopback port $1.
port_open() {
  # shellcheck disable=SC2016 # the inner shell expands these
  bounded 3 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1"' port_open "$1" 2>/dev/null
}

# management_get prints the answer of RabbitMQ's management API to GET $1 as guest; non-zero unless it is a 200.
# It and the questions below take another port than the server's own as their last argument.
management_get() {
  local answer
  # shellcheck disable=SC2016 # the inner shell expands these
  answer=$(bounded 5 bash -c '
    exec 3<>"/dev/tcp/127.0.0.1/$2" || exit 1
    printf "GET %s HTTP/1.0\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n" "$1" >&3
    cat <&3' management_get "$1" "${2:-15672}" 2>/dev/null) || return 1
  [[ $answer == HTTP/1.?" 200"* ]] || return 1
  printf '%s\n' "$answer"
}

# rabbitmq_amqp_answers: the node opens an AMQP 0-9-1 conversation (a method frame with connection.start).
# shellcheck disable=SC2120 # services.sh and rabbitmq_answers ask the default port, engines.sh another one
rabbitmq_amqp_answers() {
  [[ $(ask "${1:-5672}" 'AMQP\x00\x00\x09\x01' 11) == 010000????????000a000a ]]
}

rabbitmq_management_answers() { management_get /api/whoami >/dev/null; }

# shellcheck disable=SC2119 # the default port
rabbitmq_answers() { rabbitmq_amqp_answers && rabbitmq_management_answers; }

# mariadb_answers: root logs in over TCP with an empty password, MariaDB's way or MySQL's.
mariadb_answers() {
  mysql_login 'mysql_native_password' '\x3c' "${1:-3306}" || mysql_login 'caching_sha2_password' '\x3c' "${1:-3306}"
}

# mysql_login sends port $3 the reply to the handshake (its length is $2, its authentication plugin $1) and a quit without
# waiting for the greeting, which the server does not mind, and looks for the OK packet with sequence number 2.
mysql_login() {
  local zeros answer
  zeros=$(printf '\\x00%.0s' {1..23})
  answer=$(ask "$3" "$2"'\x00\x00\x01\x00\x82\x08\x00\x00\x00\x00\x01\x2d'"$zeros"'root\x00\x00'"$1"'\x00\x01\x00\x00\x00\x01' 4096)
  [[ $answer == *07000002000000* ]]
}

# postgres_answers: user postgres is let in without a password (AuthenticationOk).
postgres_answers() {
  [[ $(ask "${1:-5432}" '\x00\x00\x00\x17\x00\x03\x00\x00user\x00postgres\x00\x00' 9) == 520000000800000000 ]]
}

# redis_answers: PING brings PONG.
redis_answers() { [[ $(ask "${1:-6379}" 'PING\r\n' 5) == 2b504f4e47 ]]; }
