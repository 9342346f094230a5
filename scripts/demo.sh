#!/bin/sh
# The main job end to end: prove the spec without root, bring a lab up, apply, verify, load it with real queries, and let the
# agent take a name server out that fails; that needs health checks, which examples/health.yaml has.
# usage: demo.sh SPEC DB
set -eu
cd "$(dirname "$0")/.."
spec=$1
db=$2
dnsteer=.venv/bin/dnsteer
DNSTEER_EXTENSION_SOCKET=$(dirname "${db#unix:}")/dnsteer-ext.sock # the lab's, not the spec's
export DNSTEER_EXTENSION_SOCKET

if [ "$(id -u)" -ne 0 ]; then
    echo "demo: the lab needs root (network namespaces); the proof alone does not: $dnsteer check $spec" >&2
    exit 77
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
"$dnsteer" lab demo "$spec" --report build/demo/report.json
echo "== a name server fails"
if ! grep -q '^ *health:' "$spec"; then
    spec=examples/health.yaml
    "$dnsteer" lab down >/dev/null
    "$dnsteer" lab up "$spec"
    "$dnsteer" apply "$spec" --db "$db"
fi
"$dnsteer" lab failover "$spec" --report build/demo/report.json
