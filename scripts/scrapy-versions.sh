#!/bin/bash
# Fetch other versions of Scrapy than the installed one, each into VENV/scrapy/VERSION, for tests that run workers on them.
#
# usage: scripts/scrapy-versions.sh VENV VERSION...
#
# Only what a version does not share with the installed one is put beside it. What is there already is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
shift

for version in "$@"; do
    folder=$venv/scrapy/$version
    if [ -e "$folder/.fetched" ]; then
        continue
    fi
    echo "fetching Scrapy $version for the tests"
    packages=("scrapy==$version")
    case $version in
        2.13.*|2.14.*|2.15.*) packages+=("twisted==25.5.0") ;; # the last one that these can use
    esac
    case $version in
        2.15.*|2.16.*|2.17.*) packages+=("httpx==0.28.1" "httpcore==1.0.9" "h11==0.16.0" "anyio==4.9.0" "sniffio==1.3.1") ;; # for crawls without a reactor
    esac
    rm -rf "$folder" "$folder.new"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder.new" "${packages[@]}" || {
        echo "error: pip could not fetch ${packages[*]}; its own message stands above." >&2
        exit 1
    }
    touch "$folder.new/.fetched"
    mv "$folder.new" "$folder"
done
