#!/bin/sh
# Starts and stops the package's units under a systemd of their own: check-units.sh DEB FOLDER. The Debian
# in the folder is debootstrapped if it is not there, and stays. As root, with systemd-nspawn.
set -eu
deb=$1 root=$2
command -v systemd-nspawn >/dev/null || { echo "systemd-nspawn is missing: apt-get install systemd-container"; exit 1; }
[ -e "$root/sbin/init" ] || debootstrap --variant=minbase --include=python3,systemd-sysv bookworm "$root" >/dev/null
cp "$deb" "$root/root/nftop.deb"
chroot "$root" dpkg -i /root/nftop.deb >/dev/null

cat >"$root/root/check" <<'END'
#!/bin/sh
# Inside: its output is the result; the last line says that all of it was run.
set -eu
state() { systemctl show -P "$1" "nftop-$2"; }
expect() { [ "$2" = "$3" ] || { echo "$1: $2 instead of $3"; journalctl -n 20 --no-pager -u "nftop-$4"; exit 1; }; }
scrape="import urllib.request as r; print(r.urlopen('http://127.0.0.1:9739/metrics', timeout=5).read().decode())"

for unit in serve record; do
  begin=$(date +%s%N)
  systemctl start nftop-$unit
  echo "nftop-$unit: started in $((($(date +%s%N) - begin) / 1000000)) ms"
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
  begin=$(date +%s%N)
  systemctl stop nftop-$unit
  echo "nftop-$unit: stopped in $((($(date +%s%N) - begin) / 1000000)) ms"
  expect "nftop-$unit is" "$(state ActiveState $unit)" inactive $unit
  expect "nftop-$unit ended with" "$(state Result $unit)" success $unit
done
expect "the recordings' folder is" "$(stat -c '%U %a' /var/lib/nftop-recordings)" "root 700" record
nftop replay /var/lib/nftop-recordings/*.nftop --batch -n 1 --json >/root/frame
echo "nftop-record: $(stat -c %s /var/lib/nftop-recordings/*.nftop) bytes, and they are replayed"
echo "all of it"
END
chmod 755 "$root/root/check"
cat >"$root/etc/systemd/system/check.service" <<'END'
[Unit]
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
TimeoutStartSec=180
ExecStart=/root/check
StandardOutput=truncate:/root/result
StandardError=inherit
END
rm -rf "$root/root/result" "$root/var/lib/nftop-recordings"
timeout 300 systemd-nspawn --quiet --directory="$root" --register=no --keep-unit --private-network \
  --boot systemd.unit=check.service >/dev/null 2>&1 || true
cat "$root/root/result"
[ "$(tail -n 1 "$root/root/result")" = "all of it" ]
