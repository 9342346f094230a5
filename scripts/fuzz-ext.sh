#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzz the DOCA Flow program and its software model: each target for SECONDS (600) with libFuzzer, under AddressSanitizer
# and UndefinedBehaviorSanitizer. One JSON line per target; exit code 1 if one of them found something.
#   scripts/fuzz-ext.sh [SECONDS [TARGET...]]
# What was found before is where the next run starts (build/fuzz/corpus). Inputs that crash are kept in build/fuzz/found:
# build/fuzz/tests/fuzz/replay_TARGET FILE runs one again.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-600}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- pipes packet program socket
build=${FUZZ_BUILD:-build/fuzz}

if [ ! -f "$build/build.ninja" ]; then
    CC=clang meson setup "$build" datapath_ext -Dfuzz=true -Ddefault_library=static -Db_lundef=false \
        -Db_sanitize=address,undefined >&2
fi
for target in "$@"; do
    meson compile -C "$build" "fuzz_$target" "replay_$target" >&2
done

failed=0
for target in "$@"; do
    seeds=$build/seeds/$target corpus=$build/corpus/$target found=$build/found/$target log=$build/$target.log
    mkdir -p "$seeds" "$corpus" "$found"
    "$build/tests/fuzz/replay_$target" --write "$seeds"
    case $target in
    pipes | packet) options="-max_len=65536" ;;
    *) options="-max_len=16384 -dict=datapath_ext/tests/fuzz/words.dict" ;;
    esac
    code=0
    start=$(date +%s)
    # shellcheck disable=SC2086 # a list of options
    CMOCKA_TEST_ABORT=1 nice -n 10 "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" $options -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$found/" "$corpus" "$seeds" 2>"$log" || code=$?
    [ "$code" -eq 0 ] || failed=1
    awk -v target="$target" -v code="$code" -v seconds="$(($(date +%s) - start))" '
        / cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") edges = $(i + 1)
                                              if ($i == "ft:") features = $(i + 1)
                                              if ($i == "corp:") { split($(i + 1), corpus, "/") } } }
        /^stat::number_of_executed_units:/ { executions = $2 }
        /Test unit written to / { file = $NF }
        END { printf "{\"target\": \"%s\", \"seconds\": %d, \"executions\": %d, \"edges\": %d, \"features\": %d, ",
                     target, seconds, executions, edges, features
              printf "\"corpus\": %d, \"crashes\": %d, \"input\": \"%s\"}\n", corpus[1], code != 0, file }' "$log"
done
exit "$failed"
