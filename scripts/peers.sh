#!/bin/bash
# Install what the bench compares with, each into an environment of its own: they share no version of anything.
#
# usage: scripts/peers.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
fetch() {
    local name=$1
    shift
    local folder=$venv/peers/$name
    [ -e "$folder/.fetched" ] && return
    echo "installing $* for the bench"
    rm -rf "$folder"
    "$venv/bin/python" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    touch "$folder/.fetched"
}
fetch crawlee 'crawlee[parsel]==1.11.0'
# It uses these two without saying so.
fetch feapder 'feapder==1.9.3' packaging 'setuptools<81'
