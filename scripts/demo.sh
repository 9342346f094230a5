#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job end to end: prove the spec without root, bring a lab up, apply, verify, load it with real queries, and let the
# agent take a name server out that fails; that needs health checks, which examples/authoritative.yaml has.
# With KEEP=1 in the environment, which `make demo KEEP=1` sets, the lab stays, with an agent and its console, until `dnsteer lab down`.
# usage: demo.sh SPEC DB
set -eu
cd "$(dirname "$0")/.."
spec=$1
db=$2
dnsteer=.venv/bin/dnsteer
page=demo-report.html
DNSTEER_EXTENSION_SOCKET=$(dirname "${db#unix:}")/dnsteer-ext.sock # the lab's, not the spec's
export DNSTEER_EXTENSION_SOCKET

case ${KEEP:-} in "" | 0 | no) keep="" ;; *) keep=yes ;; esac

if [ "$(id -u)" -ne 0 ]; then
    echo "demo: the lab needs root (network namespaces); the proof alone does not: $dnsteer check $spec" >&2
    exit 77
fi
# Before anything is begun: the lab is taken down at the end, and one that is up already is somebody else's.
if [ "$("$dnsteer" lab status --json)" != null ]; then
    "$dnsteer" lab status | sed -n 's/^agent: .* console at /demo: a lab is up, and its console is at /p' >&2
    echo "demo: a lab is up, and there is one at a time; to end it: $dnsteer lab down" >&2
    exit 1
fi

trap '"$dnsteer" lab down >/dev/null' EXIT
trap 'exit 130' INT TERM

echo "== prove"
"$dnsteer" check "$spec"
echo "== lab"
"$dnsteer" lab up "$spec"
echo "== apply"
"$dnsteer" apply "$spec" --db "$db"
"$dnsteer" verify "$spec" --db "$db"
echo "== load"
rm -f "$page"
"$dnsteer" lab demo "$spec" --report build/demo/report.json --html "$page"
echo "== a name server fails"
kinds=$(sed -n 's/^ *serves: *\([a-z]*\).*/\1/p' "$spec" | sort -u) # the lab's name servers are no resolvers
if [ "$kinds" = resolver ] || ! grep -q '^ *health:' "$spec"; then
    spec=examples/authoritative.yaml
    "$dnsteer" lab down >/dev/null
    "$dnsteer" lab up "$spec"
    "$dnsteer" apply "$spec" --db "$db"
fi
"$dnsteer" lab failover "$spec" --report build/demo/report.json --html "$page"
echo "== look"
echo "charts of this run: $PWD/$page"
if [ -z "$keep" ]; then
    echo "the lab is gone; to look at the web console of a running one: make demo KEEP=1"
    exit 0
fi
"$dnsteer" lab agent >/dev/null
trap - EXIT INT TERM
console=$("$dnsteer" lab status | sed -n 's/^agent: .* console at //p')
port=${console##*:}
cat <<EOF
the web console of the lab's agent: $console
from elsewhere: ssh -L ${port%/}:127.0.0.1:${port%/} $(hostname), then http://127.0.0.1:$port
to send it queries: $dnsteer lab demo $spec
to end the lab and its agent: $dnsteer lab down
EOF
