#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of the DOCA Flow program and its software model under valgrind: each C test, and the program itself while
# its control socket is tried. Exit code 1 for a leak, a read of what was never written, or a test that fails.
set -eu
cd "$(dirname "$0")/.."
build=${VALGRIND_BUILD:-build/valgrind}
check="valgrind --quiet --vgdb=no --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=99"

[ -f "$build/build.ninja" ] || meson setup -Ddoca=model "$build" datapath_ext >&2
meson compile -C "$build" >&2
meson test -C "$build" --no-suite process --timeout-multiplier 20 --print-errorlogs --wrap "$check"

wrapped=$PWD/$build/dnsteer-ext-valgrind
printf '#!/bin/sh\nexec %s %s "$@"\n' "$check" "$PWD/$build/src/dnsteer-ext" >"$wrapped"
chmod 755 "$wrapped"
python3 datapath_ext/tests/ext/socket_test.py "$wrapped" datapath_ext/tests/programs
