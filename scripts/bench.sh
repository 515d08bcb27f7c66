#!/usr/bin/env bash
# Measures transmsg and what users would otherwise pick, in turn, on the same servers, as a table, JSON or a plot.
# The peers are a module of their own in scripts/bench. `transmsg-lab bench` measures transmsg alone, against raw limits.
#
# usage: bench.sh [--store mysql|postgres|DSN] [--queue quorum|classic] [--body N] [--messages N] [--callers N]
#                 [--repetitions N] [--amqp URL] [--json] [--plot FILE.svg]
# Exit status: 0 done, with nothing lost or repeated; 1 anything else; 2 usage. Run it on a machine that does nothing
# else: some 10 minutes.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# shellcheck source=scripts/lib.sh
source "$root/scripts/lib.sh"

have go || die "Go is needed: https://go.dev/dl"
mkdir -p "$root/bin"
(cd "$root/scripts/bench" && go build -o "$root/bin/bench-peers" .) >&2

# A wrong command line is told at once; servers on this machine are started only where nothing else is named.
case " $* " in
  *" -h "* | *" -help "* | *" --help "* | *"-amqp"* | *"://"*) ;;
  *) "$root/scripts/services.sh" >&2 ;;
esac
exec "$root/bin/bench-peers" "$@"
