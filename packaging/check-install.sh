#!/bin/sh
# In a bare Debian: the README's commands for the wheel of /in, by a user and for sudo; prints sizes and times.
set -eu
. "${0%/*}/inside.sh"
. /etc/os-release
for tool in gcc make pip pip3; do
  ! command -v $tool >/dev/null || fail "not bare: it has $tool"
done
echo "$PRETTY_NAME, $(python3 --version), no compiler, $(cd /in && ls nftop-*.whl) of $(($(stat -c %s /in/nftop-*.whl) / 1000)) kB"
apt-get update -qq
begin=$(milliseconds)
apt-get install -y -qq --no-install-recommends pipx python3-venv sudo >/dev/null 2>&1
echo "apt-get install pipx sudo: $(($(milliseconds) - begin)) ms, pipx $(pipx --version)"
useradd --create-home --shell /bin/bash user
echo 'user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user
printf 'Defaults env_keep += "SSL_CERT_FILE PIP_CERT https_proxy http_proxy no_proxy"\n' >>/etc/sudoers.d/user
as_user() { su user -p -c "HOME=/home/user; export HOME; cd; PATH=\$HOME/.local/bin:\$PATH; $1"; }

# Arguments: name, folder of the installation, its command.
check() {
  begin=$(milliseconds)
  as_user "$3" >/tmp/log 2>&1 || { tail -n 20 /tmp/log; fail "$3"; }
  echo "$1: $(($(milliseconds) - begin)) ms, $(du -sk "$2" | cut -f1) kB"
}
runs() {  # Arguments: what, command.
  begin=$(milliseconds)
  as_user "$2" >/tmp/log 2>&1 || { tail -n 20 /tmp/log; fail "$2"; }
  echo "  $1: $(($(milliseconds) - begin)) ms"
}
page() {
  if as_user "man nftop" 2>/dev/null | grep -q SYNOPSIS; then echo "  man nftop: found"
  else as_user "nftop man | man -l -" | grep -q SYNOPSIS && echo "  man nftop: only by nftop man | man -l -"; fi
}
used() {
  runs "nftop --version" "nftop --version"
  runs "nftop demo --batch -n 1" "nftop demo --batch -n 1 | grep -q SIMULATED"
  runs "a recording" "rm -f a.nftop; nftop demo record -o a.nftop --duration 2s; nftop replay a.nftop --batch -n 1"
  page
}
cp /in/nftop-*.whl /home/user/
check "pipx install ./nftop-*.whl" /home/user/.local "pipx install ./nftop-*.whl"
used
runs 'sudo $(command -v nftop) --version' 'sudo $(command -v nftop) --version'
as_user "pipx uninstall nftop" >/dev/null 2>&1
check "pipx install uv" /home/user/.local "pipx install uv"
check "uv tool install ./nftop-*.whl" /home/user/.local/share/uv "uv tool install ./nftop-*.whl"
used
as_user "uv tool uninstall nftop" >/dev/null 2>&1

for_all="sudo env PIPX_HOME=/opt/pipx PIPX_BIN_DIR=/usr/local/bin PIPX_MAN_DIR=/usr/local/share/man pipx install ./nftop-*.whl"
check "for all users: $for_all" /opt/pipx "$for_all"
used
runs "sudo nftop --version" "sudo nftop --version"
[ "$(stat -c %U "$(readlink -f /usr/local/bin/nftop)")" = root ] || fail "not root's"
rm -rf /opt/pipx /usr/local/bin/nftop /usr/local/share/man/man1/nftop*
for_all='sudo env UV_TOOL_DIR=/opt/uv UV_TOOL_BIN_DIR=/usr/local/bin $(command -v uv) tool install ./nftop-*.whl'
check "for all users: $for_all" /opt/uv "$for_all"
used
runs "sudo nftop --version" "sudo nftop --version"
echo "installed and run by pipx and uv in $PRETTY_NAME"
