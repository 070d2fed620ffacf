#!/bin/sh
# Makes a Debian package: deb.sh WHEEL FOLDER. It has nftop and what it needs from PyPI in /usr/lib/nftop,
# for the system's Python: build it on the distribution it is for.
set -eu
wheel=$1 out=$2
python=/usr/bin/python3
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$("$python" -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
nftop=$(basename "$wheel" | cut -d- -f2)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
lib=$root/usr/lib/nftop

# A virtual environment, which helper processes of nftop find again by sys.executable.
mkdir -p "$lib/bin" "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/usr/share/doc/nftop" "$root/DEBIAN"
ln -s "$python" "$lib/bin/python3"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$version" >"$lib/pyvenv.cfg"
"${PIP:-pip}" install --quiet --disable-pip-version-check --no-warn-conflicts --python-version "$version" \
    --only-binary :all: --implementation cp --target "$lib/lib/python$version/site-packages" "${wheel}[vpp]"
rm -rf "$lib/lib/python$version/site-packages/bin" "$lib/lib/python$version/site-packages/share"
cat >"$root/usr/bin/nftop" <<'START'
#!/usr/lib/nftop/bin/python3
import sys

from nftop.__main__ import main

sys.exit(main())
START
chmod 755 "$root/usr/bin/nftop"
cp packaging/systemd/*.service "$root/usr/lib/systemd/system/"
"$(dirname "$0")/share.sh" "${NFTOP:-nftop}" "$root/usr/share"
gzip -9n "$root"/usr/share/man/man1/*.1
gzip -9nc CHANGELOG.md >"$root/usr/share/doc/nftop/changelog.gz"
cp LICENSE "$root/usr/share/doc/nftop/copyright"
cat >"$root/DEBIAN/control" <<CONTROL
Package: nftop
Version: $nftop
Architecture: $(dpkg --print-architecture)
Maintainer: the authors of nftop <nftop@localhost>
Depends: python3 (>= $version), python3 (<< $next), libc6
Suggests: intel-cmt-cat, pcm
Section: net
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Description: top for hosts that forward packets in software
 Shows, live and per core, what each packet costs (cycles, instructions, cache
 misses) on hosts that forward with DPDK, VPP, OVS-DPDK or the kernel, finds
 what makes it cost more, and changes cache classes safely.
CONTROL
chmod -R u=rwX,go=rX "$root"
mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz -z2 --build "$root" "$out/nftop_${nftop}_$(dpkg --print-architecture).deb" >/dev/null
echo "$out/nftop_${nftop}_$(dpkg --print-architecture).deb"
