#!/usr/bin/env bash
# Checks that the import graph in .golangci.yml bites: a glob that matches no file would let everything through
# without a word. Each line of the table below becomes a file with one import in a module of stand-ins.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/lib.sh
source scripts/lib.sh

readonly module=github.com/transmsg/transmsg
linter=$(scripts/golangci-lint.sh --path)

# folder of the importing file, t for a test file, the import (. = our module), the verdict
table="
model                - ./confirms                      refused
model                - net                             refused
model                - ./internal/settle               refused
confirms             - ./model                         allowed
confirms             - ./store/gormstore               refused
confirms             - github.com/rabbitmq/amqp091-go  allowed
confirms             t ./internal/amqptest             allowed
internal/settle      - ./model                         allowed
internal/settle      - ./confirms                      refused
confirms             - ./internal/broker               allowed
consumer             - ./internal/broker               allowed
consumer             - ./publisher                     refused
collector            - ./confirms                      allowed
collector            - ./internal/broker               allowed
collector            - github.com/rabbitmq/amqp091-go  allowed
collector            - ./consumer                      refused
collector            - ./store/gormstore               refused
consumer/effect      - ./publisher                     allowed
consumer/effect      - ./store/gormstore               refused
consumer/effect      - gorm.io/gorm                    refused
consumer/effect      - github.com/redis/go-redis/v9    refused
consumer/gormeffect  - gorm.io/gorm                    allowed
consumer/redisrecord - github.com/redis/go-redis/v9    allowed
internal/broker      - github.com/rabbitmq/amqp091-go  allowed
internal/management  - ./model                         allowed
internal/management  - ./confirms                      refused
store/gormstore      - ./model                         allowed
store/gormstore      - ./internal/settle               refused
store/gormstore      - gorm.io/gorm                    allowed
store/gormstore      - github.com/libtnb/sqlite        refused
store/gormstore      - github.com/pressly/goose/v3     refused
store/gormstore      t ./internal/anystore             allowed
store/sqlite         - github.com/libtnb/sqlite        allowed
store/mysql          - github.com/pressly/goose/v3     refused
store/mysql          - ./store/migrations              refused
store/migrations     - github.com/pressly/goose/v3     allowed
publisher            - ./internal/anystore             refused
publisher            - ./model                         allowed
publisher            - ./confirms                      allowed
publisher            - ./internal/settle               allowed
publisher            - ./compensator                   refused
publisher            - ./store/gormstore               refused
publisher            - gorm.io/gorm                    refused
publisher            - github.com/rabbitmq/amqp091-go  refused
publisher            - github.com/go-sql-driver/mysql  refused
publisher            - testing                         refused
publisher            t ./store/gormstore               allowed
publisher/gormtx     - ./publisher                     allowed
publisher/gormtx     - gorm.io/gorm                    allowed
compensator          - ./confirms                      allowed
compensator          - ./internal/embed                allowed
internal/embed       - ./compensator                   refused
compensator          - ./publisher                     refused
compensator          - github.com/rabbitmq/amqp091-go  refused
compensator          - ./alert                         refused
compensator          - github.com/redis/go-redis/v9    refused
compensator          - ./compensator/redislocker       refused
compensator/redislocker - github.com/bsm/redislock     allowed
compensator          - github.com/nicholas-fedor/shoutrrr refused
topology             - ./model                         allowed
topology             - ./internal/management           refused
topology             - net/http                        refused
topology             - github.com/rabbitmq/amqp091-go  refused
topology             t ./internal/topologytest         allowed
alert                - ./model                         allowed
alert                - ./compensator                   refused
alert                - github.com/nicholas-fedor/shoutrrr allowed
transmsgtest         - testing                         allowed
transmsgtest         - ./internal/amqptest             refused
cmd/transmsg         - ./compensator                   allowed
cmd/transmsg         - github.com/rabbitmq/amqp091-go  allowed
cmd/transmsg         - ./internal/dbtest               refused
cmd/transmsg-lab     - github.com/rabbitmq/amqp091-go  refused
internal/demo        - github.com/rabbitmq/amqp091-go  allowed
examples/orders      - gorm.io/gorm                    allowed
examples/orders      - gorm.io/driver/mysql            allowed
examples/orders      - ./publisher                     allowed
examples/orders      - ./internal/anystore             refused
examples/orders      t ./internal/amqptest             refused
examples/orders      - ./store/migrations              refused
examples/orders      - github.com/rabbitmq/amqp091-go  refused
cmd/transmsg         - log                             refused
scripts/accept       - ./internal/amqptest             allowed
scripts/accept       - github.com/jackc/pgx/v5         allowed
"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp go.mod go.sum .golangci.yml "$dir/"

# Stand-ins for our packages that the table names, so that imports of them resolve.
while read -r folder; do
  mkdir -p "$dir/$folder"
  printf 'package %s\n' "${folder##*/}" >"$dir/$folder/doc.go"
done < <(awk '$3 ~ /^\.\// { print substr($3, 3) }' <<<"$table" | sort -u)

# place prints where line $1 of the table, for folder $2 and kind $3, has its file: in a folder of its own below, since
# two imports in one package can close a cycle, which is reported instead of the verdict.
place() {
  local suffix=""
  [[ $3 != t ]] || suffix=_test
  printf '%s/probe%d/probe%s.go' "$2" "$1" "$suffix"
}

n=0
while read -r folder kind import _; do
  [[ -n $folder ]] || continue
  n=$((n + 1))
  file=$dir/$(place "$n" "$folder" "$kind")
  mkdir -p "${file%/*}"
  printf 'package probe\n\nimport _ "%s"\n' "${import/#./$module}" >"$file"
done <<<"$table"

found=$(cd "$dir" && "$linter" run --enable-only=depguard --issues-exit-code=0 ./... 2>&1) || die "lint: $found"
n=0
bad=0
while read -r folder kind import verdict; do
  [[ -n $folder ]] || continue
  n=$((n + 1))
  got=allowed
  if grep -q "^$(place "$n" "$folder" "$kind"):.*(depguard)$" <<<"$found"; then got=refused; fi
  if [[ $got != "$verdict" ]]; then
    say "$(place "$n" "$folder" "$kind") imports $import: $got, want $verdict"
    bad=1
  fi
done <<<"$table"
((bad == 0)) || die "the import graph in .golangci.yml does not hold; the linter said: $found"
say "import graph: $n imports judged as they should be"
