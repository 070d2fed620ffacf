#!/bin/sh
# In a bare Debian: installs, runs, removes and purges the package of /in; prints sizes and times.
set -eu
. "${0%/*}/inside.sh"
deb=$(ls /in/nftop_*.deb)
took() { echo "$2: $(($(milliseconds) - $1)) ms"; }
. /etc/os-release
echo "$PRETTY_NAME, $(python3 --version), $(basename "$deb") of $(($(stat -c %s "$deb") / 1000)) kB"

begin=$(milliseconds)
dpkg -i "$deb" >/dev/null
took "$begin" "installed, with bytecode"
lib=/usr/lib/nftop
compiled=$(find $lib -name '*.pyc' | wc -l) sources=$(find $lib -name '*.py' | wc -l)
echo "$(du -sk $lib | cut -f1) kB installed, $compiled of $sources modules compiled"
[ "$compiled" = "$sources" ] || fail "not every module is compiled"
dpkg -V nftop
[ "$($lib/bin/python3 --version)" = "$(python3 --version)" ] || fail "another Python"
begin=$(milliseconds)
setpriv --reuid=65534 --regid=65534 --clear-groups nftop --version
took "$begin" "nftop --version of a user"
[ "$(find $lib -name '*.pyc' | wc -l)" = "$compiled" ] || fail "a start compiled something"

begin=$(milliseconds)
nftop demo --batch -n 1 | grep -q SIMULATED
took "$begin" "nftop demo --batch -n 1"
nftop demo record -o /tmp/a.nftop --duration 2s
nftop replay /tmp/a.nftop --batch -n 1 >/dev/null
nftop demo --scenario noisy cat set --group tenant --l3 0=2 --yes | grep -q kept

pages=0
for page in /usr/share/man/man1/nftop*.1.gz; do
  name=$(basename "$page" .1.gz)
  man -w "$name" >/dev/null
  warnings=$(MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
  [ -z "$warnings" ] || fail "$name: $warnings"
  pages=$((pages + 1))
done
man nftop | col -b 2>/dev/null | grep -q SYNOPSIS || man nftop | grep -q SYNOPSIS || fail "man nftop"
echo "$pages manual pages without warnings"

apt-get update -qq
apt-get install -y -qq --no-install-recommends bash-completion zsh fish >/dev/null 2>&1
/in/packaging/check-completions.sh

begin=$(milliseconds)
dpkg -r nftop >/dev/null
took "$begin" "removed"
[ ! -e /usr/bin/nftop ] && [ ! -e $lib ] || fail "left: $(find $lib | head)"
dpkg -i "$deb" >/dev/null
touch $lib/lib/of-somebody
# As `systemctl enable` does, which a bare Debian may not have.
mkdir -p /etc/systemd/system/multi-user.target.wants
for unit in nftop-serve nftop-record; do
  ln -s /usr/lib/systemd/system/$unit.service /etc/systemd/system/multi-user.target.wants/
done
dpkg -P nftop >/dev/null 2>&1
left=$(find / -xdev -name '*nftop*' ! -path '/in/*' ! -path '/tmp/*' ! -path '/var/cache/*' ! -path '/root/*')
[ -z "$left" ] || fail "purged, but left: $left"
echo "installed, run, removed and purged: $(basename "$deb")"
