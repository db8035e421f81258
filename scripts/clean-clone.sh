#!/bin/bash
# Prove the README's two commands: clone this repository into an empty place, with an empty home and no
# cache, run `make demo` and `make test` there, and say how long each took.
#
# usage: scripts/clean-clone.sh [COMMAND...]   e.g. scripts/clean-clone.sh "make demo"
set -euo pipefail
cd "$(dirname "$0")/.."

commands=("$@")
[ ${#commands[@]} -gt 0 ] || commands=("make demo" "make test")

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$place/home"
git clone --quiet --no-hardlinks . "$place/gossamer"
[ -z "$(git status --porcelain)" ] || echo "note: what is not committed is not in the clone" >&2

export HOME=$place/home PIP_NO_CACHE_DIR=1
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME VIRTUAL_ENV PYTHONPATH MAKEFLAGS MAKELEVEL MFLAGS
cd "$place/gossamer"

for command in "${commands[@]}"; do
    echo "--- $command"
    begin=$(date +%s.%N)
    bash -c "$command" </dev/null
    echo "--- $command: $(awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $begin }") s"
done
left=$(git status --porcelain)
if [ -n "$left" ]; then
    echo "error: the commands left files that git does not ignore:" >&2
    echo "$left" >&2
    exit 1
fi
