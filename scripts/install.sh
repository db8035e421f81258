#!/bin/bash
# Make the virtual environment and install Gossamer in it.
#
# usage: [PYTHON=python3.x] scripts/install.sh VENV run|dev
#   run  what `gossamer` itself needs
#   dev  also what tests, lint and benchmarks need
#
# Leaves a stamp for each kind it has installed; interrupted, it leaves none and starts again the next time.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
kind=$2

fail() {
    echo "error: $*" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    # All on PATH, not only the first: a version manager's shim may be there and have nothing behind it.
    while read -r candidate; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done < <(type -ap ${PYTHON:-python3.11 python3})
    if [ -n "${PYTHON:-}" ]; then
        fail "$PYTHON is not a Python of version 3.11 or newer. Leave PYTHON out, or name another."
    elif [ "$(uname -s)" = Darwin ]; then
        fail "Python 3.11 or newer was not found. Install it: brew install python@3.11"
    fi
    fail "Python 3.11 or newer was not found. Install it: apt-get install python3 python3-venv. Or name one: make PYTHON=/path/to/python"
}

make_venv() {
    local python
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        # Debian packs these two apart from Python; the package is named after the version.
        scripts/system-packages.sh "-:$("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')"
    fi
    echo "creating $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
}

if ! { new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }; then
    make_venv
fi

case $kind in
    run) target=. stamps=(run) ;;
    dev) target='.[dev,bench]' stamps=(run dev) ;;
    *) fail "unknown kind of installation: $kind. Say run or dev." ;;
esac

echo "installing Gossamer and what it needs ($kind); the first time takes a minute"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable "$target" ||
    fail "pip could not install the packages named in pyproject.toml; its own message stands above."
for stamp in "${stamps[@]}"; do
    touch "$venv/.installed-$stamp"
done
