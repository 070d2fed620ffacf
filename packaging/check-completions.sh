#!/bin/sh
# Asks bash, zsh and fish, as they are set up by Debian, to complete `nftop`.
set -eu
offers() {
  case " $2 " in
  *" $3 "*) echo "$1: nftop $3" ;;
  *) echo "failed: $1 does not offer $3 but: $2"; exit 1 ;;
  esac
}
# shellcheck disable=SC2016 - expanded by bash
offers bash "$(bash --norc -c '
  . /usr/share/bash-completion/bash_completion
  if declare -F _comp_load >/dev/null; then _comp_load -- nftop; else _completion_loader nftop || true; fi
  [[ $(complete -p nftop) == *"-F _nftop "* ]] || exit 1
  COMP_WORDS=(nftop rep) COMP_CWORD=1; _nftop; echo "${COMPREPLY[*]}"')" replay
# Keys of a user, on a terminal.
# shellcheck disable=SC2016 - expanded by zsh
offers zsh "$(timeout 120 zsh -f -c '
  zmodload zsh/zpty
  zpty shell zsh -f -i
  zpty -w shell "PS1=; autoload -Uz compinit; compinit -u -D; echo re\ady"
  zpty -r shell out "*ready*"
  zpty -w -n shell $'"'"'nftop compl\t\x01\x0becho [\x19]\n'"'"'
  zpty -r shell out "*\[nftop completion*\]*"
  [[ $out == *"[nftop completion"* ]] && echo completion')" completion
offers fish "$(fish -c 'complete -C "nftop rep"' | cut -f1 | tr '\n' ' ')" replay
