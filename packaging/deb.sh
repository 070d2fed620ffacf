#!/bin/sh
# Makes a Debian package: deb.sh WHEEL CONSTRAINTS FOLDER. It has nftop and what it needs from PyPI in
# /usr/lib/nftop, for the system's Python: build it on the distribution it is for. CONSTRAINTS has the versions
# that the tests ran with (packaging/locked.py). They have no hashes: the files of a version differ by Python and
# processor, and nftop keeps no list of all of them.
set -eu
wheel=$(realpath "$1") constraints=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
cd "$(dirname "$0")/.."
python=/usr/bin/python3
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$("$python" -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
# Of nftop and of the distribution, so that the one of a newer distribution is an upgrade.
nftop=$(basename "$wheel" | cut -d- -f2)+$(. /etc/os-release && echo "$ID$VERSION_ID" | sed 's/^debian/deb/')
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM  # dash runs no EXIT trap for a signal
lib=$root/usr/lib/nftop
site=$lib/lib/python$version/site-packages

# A virtual environment, which helper processes of nftop find again by sys.executable.
mkdir -p "$lib/bin" "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/usr/share/doc/nftop" "$root/DEBIAN"
ln -s "$python" "$lib/bin/python3"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$version" >"$lib/pyvenv.cfg"
# shellcheck disable=SC2086 - a command with arguments
PIP_ROOT_USER_ACTION=ignore ${PIP:-pip} install --quiet --disable-pip-version-check --no-warn-conflicts \
  --no-compile --python-version "$version" --only-binary :all: --implementation cp --target "$site" \
  --constraint "$constraints" "${wheel}[vpp]"
rm -rf "$site/bin" "$site/share"
find "$site/numpy" -type d -name tests -prune -exec rm -rf {} +  # a third of all modules
cat >"$root/usr/bin/nftop" <<'START'
#!/usr/lib/nftop/bin/python3
import sys

from nftop.__main__ import main

sys.exit(main())
START
chmod 755 "$root/usr/bin/nftop"
cp packaging/systemd/*.service "$root/usr/lib/systemd/system/"
cat >"$root/DEBIAN/nftop" <<START
#!/bin/sh
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$site exec $python -m nftop "\$@"
START
chmod 755 "$root/DEBIAN/nftop"
packaging/share.sh "$root/DEBIAN/nftop" "$root/usr/share"
rm "$root/DEBIAN/nftop"
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"  # where Debian's zsh looks
gzip -9n "$root"/usr/share/man/man1/*.1
gzip -9nc CHANGELOG.md >"$root/usr/share/doc/nftop/changelog.gz"
cp LICENSE "$root/usr/share/doc/nftop/copyright"
cat >"$root/DEBIAN/control" <<CONTROL
Package: nftop
Version: $nftop
Architecture: $(dpkg --print-architecture)
Maintainer: the authors of nftop <nftop@localhost>
Depends: python3 (>= $version), python3 (<< $next~), libc6, libgcc-s1, libstdc++6, zlib1g
Suggests: intel-cmt-cat, pcm
Section: net
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: top for hosts that forward packets in software
 Shows, live and per core, what each packet costs (cycles, instructions, cache
 misses) on hosts that forward with DPDK, VPP, OVS-DPDK or the kernel, finds
 what makes it cost more, and changes cache classes safely.
CONTROL
cp packaging/debian/* "$root/DEBIAN/"
(cd "$root" && find usr -type f -exec md5sum {} + >DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$root"
file=$out/nftop_${nftop}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zxz -z2 --build "$root" "$file" >/dev/null
echo "$file"
