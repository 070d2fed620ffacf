#!/bin/sh
# Starts and stops the package's units: `check-units.sh prepare` installs it, `check-units.sh check` runs
# under systemd. Its output is the result; the last line says that all of it was run.
set -eu
. "${0%/*}/inside.sh"
if [ "$1" = prepare ]; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends systemd-sysv >/dev/null 2>&1
  dpkg -i /in/nftop_*.deb >/dev/null
  exit
fi
state() { systemctl show -P "$1" "nftop-$2"; }
expect() { [ "$2" = "$3" ] || { echo "$1: $2 instead of $3"; journalctl -n 20 --no-pager -u "nftop-$4"; exit 1; }; }
scrape="import urllib.request as r; print(r.urlopen('http://127.0.0.1:9739/metrics', timeout=5).read().decode())"

for unit in serve record; do
  begin=$(milliseconds)
  systemctl start nftop-$unit
  echo "nftop-$unit: started in $(($(milliseconds) - begin)) ms"
done
try=0
until python3 -c "$scrape" >/root/metrics 2>/dev/null && ls /var/lib/nftop-recordings/*.nftop >/dev/null 2>&1; do
  try=$((try + 1))
  [ $try -lt 60 ] || { echo "no metrics or no recording after 60 s"; systemctl status --no-pager 'nftop-*'; exit 1; }
  sleep 1
done
sleep 20
echo "nftop-serve: $(grep -vc '^#' /root/metrics) values in a scrape"
for unit in serve record; do
  expect "nftop-$unit is" "$(state ActiveState $unit)" active $unit
  expect "nftop-$unit was restarted" "$(state NRestarts $unit)" 0 $unit
  pid=$(state MainPID $unit)
  expect "NoNewPrivs of nftop-$unit is" "$(sed -n 's/^NoNewPrivs:\t//p' /proc/$pid/status)" 1 $unit
  expect "Seccomp of nftop-$unit is" "$(sed -n 's/^Seccomp:\t//p' /proc/$pid/status)" 2 $unit
  echo "nftop-$unit: $(sed -n 's/^VmRSS:[ \t]*//p' /proc/$pid/status) of memory," \
    "capabilities $(sed -n 's/^CapEff:\t//p' /proc/$pid/status)"
  systemd-analyze security --no-pager nftop-$unit | tail -n 1
  begin=$(milliseconds)
  systemctl stop nftop-$unit
  echo "nftop-$unit: stopped in $(($(milliseconds) - begin)) ms"
  expect "nftop-$unit is" "$(state ActiveState $unit)" inactive $unit
  expect "nftop-$unit ended with" "$(state Result $unit)" success $unit
done
expect "the recordings' folder is" "$(stat -c '%U %a' /var/lib/nftop-recordings)" "root 700" record
nftop replay /var/lib/nftop-recordings/*.nftop --batch -n 1 --json >/root/frame
echo "nftop-record: $(stat -c %s /var/lib/nftop-recordings/*.nftop) bytes, and they are replayed"
mkdir -p /etc/nftop
echo 'interval_s = "x"' >/etc/nftop/config.toml
for unit in serve record; do
  systemctl start nftop-$unit || true
  try=0
  until [ "$(state ActiveState $unit)" = failed ]; do
    try=$((try + 1))
    [ $try -lt 60 ] || fail "nftop-$unit with a broken configuration is $(state ActiveState $unit)"
    sleep 1
  done
  expect "nftop-$unit with a broken configuration ended with" "$(state ExecMainStatus $unit)" 2 $unit
  expect "nftop-$unit with a broken configuration was restarted" "$(state NRestarts $unit)" 0 $unit
  systemctl reset-failed nftop-$unit
done
rm /etc/nftop/config.toml
echo "all of it"
