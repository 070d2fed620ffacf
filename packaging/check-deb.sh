#!/bin/sh
# Installs, runs and removes the package in a Debian of its own: check-deb.sh DEB FOLDER. The folder is
# debootstrapped if it is not there, and stays.
set -eu
deb=$1 root=$2
[ -e "$root/usr/bin/python3" ] || debootstrap --variant=minbase --include=python3,man-db bookworm "$root" >/dev/null
mount --bind /proc "$root/proc"
trap 'umount "$root/proc"' EXIT
cp "$deb" "$root/tmp/nftop.deb"
inside() { chroot "$root" sh -euc "cd /; $1"; }
inside 'dpkg -i /tmp/nftop.deb >/dev/null'
inside 'nftop --version'
inside 'nftop demo --batch -n 2 | grep -q SIMULATED'
inside 'rm -f /tmp/a.nftop; nftop demo record -o /tmp/a.nftop --duration 2s; nftop replay /tmp/a.nftop --batch -n 1' >/dev/null
inside 'nftop demo --scenario noisy cat set --group tenant --l3 0=2 --yes | grep -q kept'
inside 'man -w nftop nftop-cat; test -s /usr/share/bash-completion/completions/nftop'
inside 'dpkg -r nftop >/dev/null; test ! -e /usr/bin/nftop'
echo "installed, run and removed: $deb"
