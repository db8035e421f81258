#!/bin/bash
# Run a check beside a longer command.
#
# usage: scripts/beside.sh NAME CHECK... -- COMMAND...
#
# Says in one line when the check fails, and shows what it wrote when the command has ended. Fails if either fails, with the command's exit
# code if that is not 0.
set -uo pipefail

name=${1:-}
[ $# -eq 0 ] || shift
check=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    check+=("$1")
    shift
done
if [ ${#check[@]} -eq 0 ] || [ $# -lt 2 ]; then
    echo "usage: scripts/beside.sh NAME CHECK... -- COMMAND..." >&2
    exit 2
fi
shift

written=$(mktemp)
(
    "${check[@]}" >"$written" 2>&1 &
    trap 'kill $!; exit 1' TERM
    wait $! && exit 0
    printf '\n%s failed: what it found comes after the rest\n' "$name" >&2
    exit 1
) &
beside=$!
tidy() {
    kill "$beside" 2>/dev/null && wait "$beside"
    rm -f "$written"
}
trap tidy EXIT

"$@"
code=$?
wait "$beside"
checked=$?
cat "$written"
if [ "$checked" -ne 0 ]; then
    echo "error: $name failed" >&2
    [ "$code" -ne 0 ] || code=1
fi
exit "$code"
