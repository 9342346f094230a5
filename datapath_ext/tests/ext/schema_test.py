# SPDX-License-Identifier: Apache-2.0
"""The schema and the reader agree: python3 schema_test.py PROGRAM SCHEMA PROGRAMS. Skipped without jsonschema."""

import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import jsonschema
except ImportError:
    print("no jsonschema")
    sys.exit(77)

BINARY, SCHEMA, PROGRAMS = sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3])
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


def reader_accepts(program):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(program, file)
        file.flush()
        result = subprocess.run(
            [BINARY, "--program", file.name, "--check"], capture_output=True, text=True, check=False
        )
        assert result.returncode in (0, 1), result
        return result.returncode == 0


def places(value, path=()):
    """Paths of all values in the program."""
    yield path
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def damaged(program):
    """The program with one value removed or replaced by one that fits nowhere."""
    for path in places(program):
        if not path:
            continue
        for value in (None, [], -1, "?" * 161):
            copied = copy.deepcopy(program)
            at = copied
            for key in path[:-1]:
                at = at[key]
            if value is None:
                del at[path[-1]]
            else:
                at[path[-1]] = value
            yield path, value, copied


def main():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    count = 0
    for file in sorted(PROGRAMS.glob("*.json")):
        program = json.loads(file.read_text())
        VALIDATOR.validate(program)
        assert reader_accepts(program), file
        for number, (path, value, bad) in enumerate(damaged(program)):
            if number % 7 or VALIDATOR.is_valid(bad):
                continue
            assert not reader_accepts(bad), (file.name, path, value)
            count += 1
    print(f"{count} bad programs")


main()
