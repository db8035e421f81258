#!/bin/bash
# Install the system packages whose command is missing.
#
# usage: scripts/system-packages.sh COMMAND:PACKAGE...
#   COMMAND "-" means: the caller knows that the package is missing.
#
# Root on Debian and its kin gets them by apt-get; anybody else is told what to run. No service is started and no
# database cluster is made: the tests run servers of their own, and ports 6379, 5432 and 3306 of this machine are not ours.
set -euo pipefail

# Debian keeps some servers where only root's PATH leads, and PostgreSQL's in a directory for each version.
PATH=$PATH:/usr/sbin:/sbin
for directory in /usr/lib/postgresql/*/bin; do
    PATH=$PATH:$directory
done

missing=()
for entry in "$@"; do
    name=${entry%%:*}
    if [ "$name" = - ] || ! command -v "$name" >/dev/null 2>&1; then
        missing+=("${entry#*:}")
    fi
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(uname -s)" = Darwin ]; then
    echo "error: missing: ${missing[*]}. Run: brew install redis openssl prometheus postgresql mariadb" >&2
    exit 1
elif ! command -v apt-get >/dev/null 2>&1; then
    echo "error: missing: ${missing[*]} (as Debian names them). Install them with this system's package manager." >&2
    exit 1
elif [ "$(id -u)" -ne 0 ]; then
    echo "error: missing: ${missing[*]}. Run: sudo apt-get install ${missing[*]}" >&2
    exit 1
fi

policy_is_ours=no
cluster_is_ours=no
log=$(mktemp)
tidy() {
    rm -f "$log"
    [ "$policy_is_ours" = no ] || rm -f "$policy"
    if [ "$cluster_is_ours" = yes ]; then
        rm -f "$cluster"
        rmdir -p --ignore-fail-on-non-empty "${cluster%/*}"
    fi
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# invoke-rc.d asks this file whether a package may start its service. One that is already there stays as it is.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    policy_is_ours=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

# PostgreSQL's package asks here whether to make a cluster. Whoever wants one later runs pg_createcluster.
cluster=/etc/postgresql-common/createcluster.d/no-cluster-for-tests.conf
if [ ! -e "$cluster" ]; then
    cluster_is_ours=yes
    mkdir -p "${cluster%/*}"
    echo "create_main_cluster = false" >"$cluster"
fi

echo "installing system packages: ${missing[*]}"
install() {
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
# The package lists of a fresh image are empty; those of an old machine may be stale.
if ! install && ! { apt-get update >"$log" 2>&1 && install; }; then
    tail -n 20 "$log" >&2
    echo "error: apt-get could not install ${missing[*]}. Install them by hand: apt-get update && apt-get install ${missing[*]}" >&2
    exit 1
fi
