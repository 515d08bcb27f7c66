#!/usr/bin/env bash
# Checks the Dockerfile without a container engine: its shape, and its "go build" line, run as written on the files
# that .dockerignore leaves. The binary must be static and print the version that was put in.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=scripts/lib.sh
source scripts/lib.sh

# must checks that the instructions hold a line that matches $1, because of $2.
must() { grep -qE "$1" <<<"$instructions" || die "no line matches '$1': $2"; }

# Continued lines become one; comments and blank lines go.
instructions=$(sed -e ':a' -e '/\\$/N; s/\\\n[[:space:]]*/ /; ta' Dockerfile | grep -vE '^[[:space:]]*(#|$)')

unknown=$(grep -vE '^(FROM|WORKDIR|COPY|ARG|ENV|RUN|USER|EXPOSE|ENTRYPOINT|CMD|LABEL) ' <<<"$instructions" || true)
[[ -z $unknown ]] || die "not an instruction that this check knows: $unknown"
go_version=$(awk '$1 == "go" { split($2, v, "."); print v[1] "." v[2] }' go.mod)
must "^FROM golang:$go_version(\\.[0-9]+)?(-[a-z]+)? AS build$" "the image must have the Go that go.mod names"
final=$(awk '/^FROM /{text = ""} {text = text "\n" $0} END {print text}' <<<"$instructions")
grep -qE '^FROM scratch$' <<<"$final" || die "the last stage must start from scratch"
if grep -qE '^(RUN|ADD) ' <<<"$final"; then die "the last stage has no shell to run anything"; fi
must '^USER [1-9][0-9]*:[1-9][0-9]*$' "a numeric user that is not root"
must '^COPY --from=build .*ca-certificates\.crt ' "TLS needs certificates"
must '^ENTRYPOINT \["/transmsg"\]$' "arguments of docker run are the binary's"
must '^CMD \["compensator"\]$' "without arguments the image is the daemon"
must '^EXPOSE [0-9]+$' "the HTTP port is documented"

build=$(sed -nE 's/^RUN (.*go build .*)$/\1/p' <<<"$instructions")
[[ $(grep -c . <<<"$build") == 1 ]] || die "want one RUN line with go build"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The build context: tracked and new files, less what .dockerignore names. Two kinds of pattern are known: a glob at
# the root, and **/ with a glob for names anywhere.
mkdir "$dir/src" "$dir/out"
# shellcheck disable=SC2119 # all files
source_files | while IFS= read -r -d '' file; do
  if [[ -e $file ]]; then printf '%s\0' "$file"; fi
done | tar --create --null --files-from - | tar --extract --directory "$dir/src"
while read -r pattern; do
  case $pattern in
    '' | '#'*) ;;
    '**/'*) find "$dir/src" -name "${pattern#\*\*/}" -prune -exec rm -rf {} + ;;
    */* | '!'*) die ".dockerignore: this check does not know the pattern $pattern" ;;
    *) find "$dir/src" -mindepth 1 -maxdepth 1 -name "$pattern" -exec rm -rf {} + ;;
  esac
done <.dockerignore

if [[ ! -d $dir/src/cmd/transmsg ]]; then
  die "the build context holds no cmd/transmsg"
fi
# As an engine would run it, but for the place of the result.
(cd "$dir/src" && VERSION=v0.0.0-check PATH=$PATH sh -c "${build//\/out\/transmsg/$dir/out/transmsg}") ||
  die "the build line does not succeed on the build context: $build"
binary=$dir/out/transmsg
if ldd "$binary" >/dev/null 2>&1; then die "the binary is not static: $(ldd "$binary")"; fi
printed=$("$binary" version 2>&1) || die "transmsg version: $printed"
[[ $printed == *v0.0.0-check* ]] || die "the version is not in the binary; transmsg version prints: $printed"
say "Dockerfile: static binary of $(wc -c <"$binary") bytes, $printed"
