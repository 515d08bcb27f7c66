#!/usr/bin/env bash
# Declares what a topology file asks for on a broker, by rabbitmqadmin, and checks what the broker then has.
# `transmsg topology` knows what is declared and what is wrong; this script carries files to the broker and back.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: topology.sh apply FILE [OPTIONS...]    import the topology file's definitions, then check
       topology.sh check FILE [OPTIONS...]    check only; changes nothing

OPTIONS are rabbitmqadmin's own, such as --config and --node: they say where the management API is and as whom. A
password belongs into its configuration file. Both rabbitmqadmin 3.x and v2 will do; the user needs the tag
administrator.
Environment: TRANSMSG is the transmsg to use, RABBITMQADMIN the rabbitmqadmin; else those on the path.
Exit status: that of `transmsg topology check`: 0 as asked, 1 not, or the broker refused, 2 usage, 4 not all was seen.
USAGE
}

transmsg=${TRANSMSG:-transmsg}
admin=${RABBITMQADMIN:-rabbitmqadmin}

# carry has rabbitmqadmin import or export a file. The native one (v2) has groups of commands.
carry() {
  local verb=$1 file=$2 help
  shift 2
  help=$("$admin" --help 2>&1) || true
  if [[ $help == *"help subcommands"* ]]; then
    "$admin" "$@" "$verb" "$file" >/dev/null
  else
    "$admin" "$@" definitions "$verb" --file "$file" >/dev/null
  fi
}

main() {
  local verb=${1-} file=${2-}
  case $verb in
    -h | --help) usage && return 0 ;;
    apply | check) ;;
    *) usage >&2 && return 2 ;;
  esac
  [[ -n $file ]] || { usage >&2 && return 2; }
  shift 2
  umask 077 # Definitions and exports hold password hashes.
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  if [[ $verb == apply ]]; then
    "$transmsg" topology print --topology "$file" >"$folder/want.json" || return 2
    carry import "$folder/want.json" "$@"
  fi
  carry export "$folder/have.json" "$@"
  "$transmsg" topology check --topology "$file" --definitions "$folder/have.json"
}

main "$@"
