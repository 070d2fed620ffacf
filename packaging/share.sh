#!/bin/sh
# Writes manual pages and completions: share.sh NFTOP FOLDER, as of /usr/share.
set -eu
nftop=$1 share=$2
man=$share/man/man1
bash=$share/bash-completion/completions
zsh=$share/zsh/site-functions
fish=$share/fish/vendor_completions.d
mkdir -p "$man" "$bash" "$zsh" "$fish"
pages=$("$nftop" man --list)
for page in $pages; do
    command=${page#nftop}
    "$nftop" man ${command:+"${command#-}"} >"$man/$page.1"
done
"$nftop" completion bash >"$bash/nftop"
"$nftop" completion zsh >"$zsh/_nftop"
"$nftop" completion fish >"$fish/nftop.fish"
