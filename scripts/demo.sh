#!/usr/bin/env bash
# Shows the whole job on a real RabbitMQ and an embedded SQLite store; needs Go and nothing else: a RabbitMQ that
# does not answer on 127.0.0.1:5672 is set up by services.sh.
#
# usage: demo.sh [--seed N] [--messages N] [--amqp URL] [--keep] [--json]    (the flags of `transmsg-lab demo`)
# Exit status: 0 it ended with `lost 0`, 1 anything else, 2 usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/lib.sh
source scripts/lib.sh

have go || die "Go is needed: https://go.dev/dl"
case " $* " in
  *" --amqp"* | *" --help "* | *" -h "*) ;; # another broker, or none
  *) scripts/services.sh rabbitmq ;;
esac
mkdir -p bin
go build -o bin/transmsg-lab ./cmd/transmsg-lab
exec bin/transmsg-lab demo "$@"
