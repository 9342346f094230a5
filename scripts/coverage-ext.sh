#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lines of the DOCA Flow program that its tests run: JSON, per file and in total, in percent. Exit code 1 below 85 %.
# FOLDER=model/src counts the software model's.
#   scripts/coverage-ext.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
folder=${1:-src}
build=${COVERAGE_BUILD:-build/coverage}

if [ ! -f "$build/build.ninja" ]; then
    meson setup "$build" datapath_ext -Db_coverage=true >&2
fi
meson compile -C "$build" >&2
find "$build" -name '*.gcda' -delete
meson test -C "$build" --print-errorlogs >&2
find "$build" -name '*.gcda' -exec gcov --json-format --stdout {} + 2>/dev/null | python3 -c '
import json, pathlib, sys

folder, lines = pathlib.Path(sys.argv[1]).resolve(), {}
for report in map(json.loads, sys.stdin):
    for file in report["files"]:
        path = pathlib.Path(report["current_working_directory"], file["file"]).resolve()
        if folder in path.parents:
            counts = lines.setdefault(str(path.relative_to(folder)), {})
            for line in file["lines"]:  # a header or an included file has several reports
                counts[line["line_number"]] = counts.get(line["line_number"], 0) + line["count"]
files = {
    name: {
        "lines": len(counts),
        "covered": sum(count > 0 for count in counts.values()),
        "not": [line for line, count in sorted(counts.items()) if not count],
    }
    for name, counts in sorted(lines.items())
}
total, covered = (sum(file[key] for file in files.values()) for key in ("lines", "covered"))
percent = round(100 * covered / total, 1)
print(json.dumps({"folder": sys.argv[1], "files": files}))
print(json.dumps({"lines": total, "covered": covered, "percent": percent}))
sys.exit(percent < 85)
' "datapath_ext/$folder"
