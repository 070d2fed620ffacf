#!/bin/sh
# In a Debian 13: the keys of Ubuntu's archive to /out.
set -eu
apt-get update -qq
apt-get install -y -qq --no-install-recommends ubuntu-keyring >/dev/null
cp /usr/share/keyrings/ubuntu-archive-keyring.gpg /out/
