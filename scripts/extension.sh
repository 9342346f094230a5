#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the extension's programs for use here: optimised, on the software model of DOCA Flow, into build/plain.
# Optimised across files too (b_lto): the model's lookup of a flow is called across several for each packet.
set -eu
cd "$(dirname "$0")/.."
build=build/plain
[ -f "$build/build.ninja" ] || meson setup --buildtype=release -Db_lto=true -Ddoca=model "$build" datapath_ext >/dev/null
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Other targets as they are given: ext-bench. Neither the tests nor the fuzzers, which are four fifths of the work: make ext
# builds them under sanitizers.
meson compile -C "$build" dnsteer-ext dnsteer-ext-frames decap "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
