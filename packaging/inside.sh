# Sourced by what changes the system it runs on: it runs in the Debian of debian.sh and nowhere else.
case ${0%/*} in
/in/packaging | /root/in/packaging) ;;
*) echo "$0 installs and removes packages: it runs by packaging/debian.sh only"; exit 2 ;;
esac
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
fail() { echo "failed: $*"; exit 1; }
