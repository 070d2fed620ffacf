#!/bin/sh
# Runs a script in a Debian or Ubuntu of its own: debian.sh [--boot] RELEASE FOLDER OUT SCRIPT FILE...
#
# FOLDER/RELEASE is debootstrapped if it is not there, with Python and man, without pip and build tools,
# and is not changed afterwards: SCRIPT, a file of packaging, runs as root of an overlay on it, which is
# removed in the end. /in has packaging and the FILEs; /out is OUT. Packages that apt fetches stay in
# FOLDER/cache. With --boot SCRIPT runs twice: `SCRIPT prepare`, then `SCRIPT check` under the system's
# own systemd, without a network. As root.
set -eu
if [ "$1" = --inside ]; then  # in a mount namespace of its own: BASE ROOT CACHE OUT SCRIPT BOOT
  base=$2 root=$3 cache=$4 out=$5 script=$6 boot=$7
  mount -t overlay overlay -o "lowerdir=$base,upperdir=$root/upper,workdir=$root/work" "$root/merged"
  merged=$root/merged
  mount --bind "$root/in" "$merged/in"
  mount --bind "$out" "$merged/out"
  mount --bind "$cache" "$merged/var/cache/apt/archives"
  cp --remove-destination /etc/resolv.conf /etc/hosts "$merged/etc/"  # a link there may lead to the host's
  # Authorities that this machine trusts, a proxy's among them, are trusted there too.
  certificates=/in/certificates.crt
  cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$merged$certificates" || certificates=
  proxies=$(env | grep -iE '^(https?|no)_proxy=|^(PIP|UV)_(INDEX_URL|DEFAULT_INDEX)=' || true)
  run() {
    # shellcheck disable=SC2086 - settings without spaces
    env -i $proxies ${certificates:+SSL_CERT_FILE=$certificates PIP_CERT=$certificates} \
      HOME=/root LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      unshare --mount --pid --fork --kill-child chroot "$merged" sh -c \
      'mount -t proc proc /proc && mount --rbind "$0" /dev && cd /root && exec "$@"' /host-dev "$@"
  }
  mkdir -p "$merged/host-dev"
  mount --rbind /dev "$merged/host-dev"
  if [ "$boot" = no ]; then
    run "/in/packaging/$script"
    exit
  fi
  run "/in/packaging/$script" prepare
  umount -R "$merged/host-dev" && rmdir "$merged/host-dev"
  cp -r "$root/in" "$merged/root/in"
  cat >"$merged/etc/systemd/system/check.service" <<UNIT
[Unit]
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
TimeoutStartSec=240
ExecStart=/root/in/packaging/$script check
StandardOutput=truncate:/root/result
StandardError=inherit
UNIT
  timeout 300 systemd-nspawn --quiet --directory="$merged" --register=no --keep-unit --private-network \
    --boot systemd.unit=check.service >"$root/boot.log" 2>&1 || true
  cat "$merged/root/result" || tail -n 20 "$root/boot.log"
  [ "$(tail -n 1 "$merged/root/result")" = "all of it" ]
  exit
fi

boot=no
[ "$1" != --boot ] || { boot=yes; shift; }
release=$1 folder=$2 out=$3 script=$4
shift 4
packaging=$(realpath "$(dirname "$0")")
mkdir -p "$folder/cache/$release/partial" "$out"
folder=$(realpath "$folder") out=$(realpath "$out")
[ "$(id -u)" = 0 ] || { echo "$0: needs root"; exit 1; }
for program in debootstrap unshare $([ $boot = no ] || echo systemd-nspawn); do
  command -v "$program" >/dev/null || { echo "$program is missing: apt-get install debootstrap util-linux systemd-container"; exit 1; }
done

base=$folder/$release
if [ ! -e "$base/usr/bin/python3" ]; then
  about=${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts/$release options=
  # Ubuntu's releases are links to gutsy there, and a newer one may not have its own yet.
  [ -e "$about" ] || about=${about%/*}/gutsy
  if grep -q ubuntu.com "$about"; then
    options=--components=main,universe keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    if [ ! -e $keys ]; then
      keys=$folder/ubuntu-archive-keyring.gpg  # Debian 13 has them, and its apt checks them
      [ -e "$keys" ] || "$0" trixie "$folder" "$folder" ubuntu-keys.sh
      options="$options --keyring=$keys"
    fi
  fi
  echo "debootstrap $release, once"
  rm -rf "$base" "$base.new"
  # shellcheck disable=SC2086 - options without spaces
  debootstrap --variant=minbase --cache-dir="$folder/cache/$release" $options \
    --include=python3,man-db "$release" "$base.new" "" "$about" >"$folder/$release.log" 2>&1 ||
    { tail -n 5 "$folder/$release.log"; exit 1; }
  mkdir -p "$base.new/in" "$base.new/out"
  mv "$base.new" "$base"
fi
root=$(mktemp -d "$folder/overlay.XXXXXX")
trap 'rm -rf "$root"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM  # dash runs no EXIT trap for a signal
mkdir -p "$root/upper" "$root/work" "$root/merged" "$root/in"
cp -r "$packaging" "$root/in/packaging"
[ $# = 0 ] || cp -r "$@" "$root/in/"
unshare --mount --propagation private "$packaging/debian.sh" --inside \
  "$base" "$root" "$folder/cache/$release" "$out" "$script" $boot
