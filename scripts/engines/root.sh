# shellcheck shell=bash
# Roots: a folder with a whole Debian suite in it, into which servers are installed without touching this machine.

# engines_dir is where all roots lie: outside the repository, and for every user of the machine the same.
engines_dir() { echo "${TRANSMSG_ENGINES_DIR:-${XDG_CACHE_HOME:-/var/cache}/transmsg-engines}"; }

root_of() { echo "$(engines_dir)/$1"; }

# apt_mirror prints the archive that this machine itself installs from, in the new form of its lists or the old one.
apt_mirror() {
  local mirror
  mirror=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '$1 == "URIs:" && $2 ~ /debian\/?$/ { print $2; exit }')
  [[ -n $mirror ]] || mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+debian\/?) .*/\2/p' | head -n 1)
  [[ -n $mirror ]] || die "no Debian archive is named in /etc/apt, so there is nothing to install a root from"
  echo "$mirror"
}

# copy_network lets apt inside the root reach the archive as this machine does: resolver, proxy, log-in.
copy_network() {
  local root=$1 file
  install -d "$root/etc/apt/apt.conf.d"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    if [[ -f $file ]] && grep -q '^ *Acquire::' "$file" && ! grep -qE 'Dir::|Pre-Install|Post-Invoke' "$file"; then
      cp "$file" "$root/etc/apt/apt.conf.d/"
    fi
  done
  if [[ -d /etc/apt/auth.conf.d ]]; then cp -a /etc/apt/auth.conf.d "$root/etc/apt/"; fi
}

# need_root_tools installs what this machine lacks for making roots.
need_root_tools() {
  [[ $EUID -eq 0 ]] || die "run it as root: roots, network namespaces and servers under users of their own need that"
  local packages=()
  have debootstrap || packages+=(debootstrap)
  have unshare || packages+=(util-linux)
  have ip || packages+=(iproute2)
  ((${#packages[@]})) || return 0
  debian_like || die "install these Debian/Ubuntu packages: ${packages[*]}"
  apt_install "${packages[@]}"
}

# make_root makes the root of a suite unless it is there. A root that is half made has no mark and is made anew.
make_root() {
  local suite=$1 root begin=$SECONDS
  root=$(root_of "$suite")
  [[ -e $root/.made ]] && return
  say "engines: making the root of $suite in $root (about a minute)"
  empty_root "$suite"
  install -d -m 755 "$(engines_dir)" "$root"
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$(apt_mirror)" >"$root.log" 2>&1 ||
    { tail -n 5 "$root.log" >&2 && die "debootstrap of $suite failed; all of it is in $root.log"; }
  copy_network "$root"
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # No package starts what it brings.
  chmod 755 "$root/usr/sbin/policy-rc.d"
  touch "$root/.made"
  say "engines: made the root of $suite ($((SECONDS - begin)) s)"
}

# in_root runs a command in the root of suite $1. What it mounts there belongs to a mount namespace of the command,
# and is gone with its last process.
in_root() {
  local root
  root=$(root_of "$1")
  shift
  # shellcheck disable=SC2016 # the inner shell expands these
  unshare --mount --propagation private sh -c '
    mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev/shm" || exit 1
    root=$1
    shift
    exec chroot "$root" "$@"' in_root "$root" \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
}

# install_in_root installs packages in the root of suite $1, unless they are there.
install_in_root() {
  local suite=$1 log missing=() package begin=$SECONDS
  log=$(root_of "$suite").log
  shift
  for package in "$@"; do
    [[ $(package_version "$suite" "$package") ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  say "engines: installing in the root of $suite: ${missing[*]}"
  copy_network "$(root_of "$suite")"
  if ! {
    in_root "$suite" apt-get update -qq &&
      in_root "$suite" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  } >>"$log" 2>&1; then
    tail -n 5 "$log" >&2
    die "installing ${missing[*]} failed; all of it is in $log"
  fi
  in_root "$suite" apt-get clean
  say "engines: installed ${missing[*]} ($((SECONDS - begin)) s)"
}

# package_version prints the version of a package that is installed in the root of suite $1, else nothing.
package_version() {
  [[ -e $(root_of "$1")/.made ]] || return 0
  dpkg-query --admindir="$(root_of "$1")/var/lib/dpkg" -W -f '${db:Status-Status} ${Version}\n' "$2" 2>/dev/null |
    sed -n 's/^installed //p'
}

# processes_in prints the ids of all processes whose root is that of suite $1; with an engine's name, those of this
# engine alone. Only such processes are ever ended.
processes_in() {
  local root dir
  root=$(root_of "$1")
  for dir in /proc/[0-9]*; do
    [[ $(readlink "$dir/root" 2>/dev/null) == "$root" ]] || continue
    if [[ -z ${2-} ]] || of_engine "$dir" "$root" "$2"; then echo "${dir#/proc/}"; fi
  done
}

# of_engine knows an engine's processes by the folder they work in, or by their environment: Redis writes its title
# over the one, the port mapper of Erlang leaves the other.
of_engine() {
  [[ $(readlink "$1/cwd")/ == "$2/srv/$3/"* ]] || { tr '\0' '\n' <"$1/environ" | grep -x "TRANSMSG_ENGINE=$3"; } >/dev/null 2>&1
}

# empty_root removes the root of a suite. What is mounted in it would be emptied with it, so that is refused.
empty_root() {
  local root
  root=$(root_of "$1")
  [[ -e $root ]] || return 0
  if grep -F " $root/" /proc/self/mounts >&2; then die "something is mounted in $root (see above): unmount it first"; fi
  rm -rf --one-file-system "$root"
}
