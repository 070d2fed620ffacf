#!/bin/sh
# In a Debian of its own: makes the package for it from the wheel, into /out.
set -eu
. "${0%/*}/inside.sh"
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3-pip >/dev/null
cd /in
PIP="python3 -m pip" packaging/deb.sh nftop-*.whl constraints.txt /out
