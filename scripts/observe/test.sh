#!/usr/bin/env bash
# Checks the alert rules with promtool, and installs promtool (Debian package prometheus) where it is missing.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

usage() {
  cat <<'USAGE'
usage: test.sh [RULES...]

Without arguments: promtool check rules and promtool test rules on the rules of this folder. With arguments:
promtool check rules on these files. Exit status: 0 all is well, 1 it is not or promtool cannot be had.
USAGE
}

need_promtool() {
  have promtool && return
  debian_like || die "promtool is missing: install it (Debian package prometheus, or prometheus.io/download)"
  apt_install prometheus || die "promtool: the Debian package prometheus could not be installed"
  # Only the tool is wanted, not a server after the next boot.
  if [[ -d /run/systemd/system ]]; then as_root systemctl disable prometheus >&2 || true; fi
  have promtool || die "promtool: the package prometheus is installed and does not have it"
}

[[ ${1-} == -h || ${1-} == --help ]] && { usage && exit 0; }
need_promtool
if (($#)); then
  promtool check rules "$@"
  exit
fi
cd "$(dirname "${BASH_SOURCE[0]}")"
promtool check rules transmsg.rules.yaml
promtool test rules transmsg.rules.test.yaml
