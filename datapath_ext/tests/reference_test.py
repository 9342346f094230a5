# SPDX-License-Identifier: Apache-2.0
"""The model's public headers against what is published of DOCA's: python3 reference_test.py HEADERS FACTS README COMPILER...

FACTS is a folder of text files: names, types, values and argument types, each with its source. From them come structures
and assertions in C, which the compiler compares with the headers: members, their types (constness included), order and
sizes, values of enumerators and macros, types of calls. What the headers of the flow library declare beyond the facts is
an error, and so is a fact marked absent that is there, or that the README does not list. Then the same with facts that
are wrong in one place: each must be found, or the comparison proves nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HEADERS, FACTS, README, COMPILER = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
FLAGS = ["-std=gnu11", "-DDOCA_ALLOW_EXPERIMENTAL_API", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", "-"]
# Headers that have nothing but what the SDK has; the others declare a subset and their own helpers.
WHOLE = re.compile(r"doca_flow(?!_model).*\.h")


@dataclass
class Facts:
    headers: list[str] = field(default_factory=list)
    c: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    absent: list[tuple[str, str]] = field(default_factory=list)


def declaration(line: str) -> tuple[str, str, str]:
    """'uint8_t[6] src_mac' as type, name and dimensions."""
    spelled, name = line.strip().rsplit(" ", 1)
    base, _, dimensions = spelled.partition("[")
    return base.strip(), name, f"[{dimensions}" if dimensions else ""


def members(lines: list[str], c: list[str], prefix: str, top: str, depth: int = 1) -> list[str]:
    """Declares the members in `c`; returns assertions on each."""
    asserts, i = [], 0
    while i < len(lines):
        line = lines[i].strip()
        end = i + 1
        while end < len(lines) and lines[end].startswith("  " * (depth + 1)):
            end += 1
        words = line.split()
        if words[0] in ("struct", "union") and len(words) <= 2 and end > i + 1:
            inner = words[1] if len(words) == 2 else ""
            c.append(f"{words[0]} {{")
            asserts += members(lines[i + 1 : end], c, f"{prefix}{inner}." if inner else prefix, top, depth + 1)
            c.append(f"}} {inner};")
        else:
            base, name, dimensions = declaration(line)
            c.append(f"{base} {name}{dimensions};")
            path = f"{prefix}{name}"
            same = f"__builtin_types_compatible_p(__typeof__((({top} *)0)->{path}), {base}{dimensions})"
            asserts.append(f'_Static_assert({same}, "type of {top}.{path}, published as {base}{dimensions}");')
            where = f"offsetof({top}, {path}) == offsetof(struct ref_{top.split()[1]}, {path})"
            asserts.append(f'_Static_assert({where}, "place of {top}.{path}");')
        i = end
    return asserts


def add_block(block: list[str], facts: Facts) -> None:
    kind, name, *rest = block[0].split(" ", 2)
    text = rest[0] if rest else ""
    facts.names.add(name)
    if kind == "header":
        facts.names.discard(name)
        facts.headers.append(name)
    elif kind == "source":
        facts.names.discard(name)
    elif kind == "absent":
        facts.names.discard(name)
        facts.absent.append((name, text))
    elif kind == "opaque":
        facts.names.discard(name)
        facts.names.add(text)
        facts.c.append(f"{name} {text};")
    elif kind == "macro":
        facts.c.append(f'_Static_assert({name} == {text}, "{name}, published as {text}");')
    elif kind == "enum":
        for line in block[1:]:
            enumerator, value = line.strip().split(" = ")
            facts.names.add(enumerator)
            facts.c.append(f'_Static_assert({enumerator} == {value}, "{enumerator}, published as {value}");')
        facts.c.append(f'_Static_assert(sizeof(enum {name}) == {text or 4}, "size of enum {name}");')
    elif kind in ("struct", "union"):
        facts.c.append(f"{kind} ref_{name} {{")
        asserts = members(block[1:], facts.c, "", f"{kind} {name}")
        facts.c += ["};", *(a.replace(f"struct ref_{name}", f"{kind} ref_{name}") for a in asserts)]
        facts.c.append(f'_Static_assert(sizeof({kind} {name}) == sizeof({kind} ref_{name}), "size of {kind} {name}");')
    elif kind == "function":
        facts.c.append(
            f'_Static_assert(__builtin_types_compatible_p(__typeof__({name}), {text}), "{name}, published as {text}");'
        )
    elif kind == "callback":
        facts.c.append(f'_Static_assert(__builtin_types_compatible_p({name}, {text}), "{name}, published as {text}");')
    else:
        raise ValueError(f"{block[0]}: no kind of fact")


def read(text: str) -> Facts:
    facts, block = Facts(), []
    for line in [*text.splitlines(), "end"]:
        if line.startswith(" "):
            block.append(line)
        elif line.strip():
            if block:
                add_block(block, facts)
            block = [line]
    return facts


def declared() -> set[str]:
    """Names that the whole headers declare: calls, callbacks, structures, enumerations, enumerators and macros."""
    found = set()
    for path in sorted(HEADERS.glob("doca_flow*.h")):
        if not WHOLE.fullmatch(path.name):
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        found.update(re.findall(r"\b(doca_flow_\w+)\(", re.sub(r"#define.*", "", text)))
        found.update(re.findall(r"\(\*(doca_flow_\w+)\)", text))
        found.update(re.findall(r"\b(?:struct|union|enum) (doca_(?:flow|rss)_\w+)[ ;{]*(?:\{|;)", text))
        found.update(re.findall(r"^\s+(DOCA_\w+)\s*(?:=[^,}]*)?,", text, re.MULTILINE))
        found.update(re.findall(r"^#define (DOCA_\w+)[ \t]+\S", text, re.MULTILINE))
    return {name for name in found if not name.endswith("_H_")}


def compare(text: str) -> list[str]:
    """What differs, in words."""
    facts = read(text)
    source = "\n".join([*(f"#include <{name}>" for name in dict.fromkeys(["stddef.h", *facts.headers])), *facts.c, ""])
    result = subprocess.run(
        [*COMPILER, "-I", str(HEADERS), *FLAGS], input=source, capture_output=True, text=True, check=False
    )
    wrong = [line for line in result.stderr.splitlines() if " error: " in line]
    if result.returncode != 0 and not wrong:
        wrong.append(result.stderr)
    own = declared()
    wrong += [f"{name} is declared and not among the facts" for name in sorted(own - facts.names)]
    wrong += [f"{kind} {name} is there, but marked absent" for kind, name in facts.absent if name in own]
    readme = README.read_text()
    wrong += [f"README does not list {name}" for _, name in facts.absent if not listed(name, readme)]
    return wrong


def listed(name: str, readme: str) -> bool:
    """Whether the README names it, or a group that it is of, as in `DOCA_FLOW_VXLAN_GPE_TYPE_*`."""
    return any(
        name.startswith(word[:-1]) if word.endswith("*") else name == word for word in re.findall(r"`([\w*]+)`", readme)
    )


def wrong_facts(text: str) -> dict[str, str]:
    """The facts, wrong in one place each; the name says where."""
    changes = {
        "constness": ("  struct doca_flow_actions * actions\n", "  const struct doca_flow_actions * actions\n"),
        "constness of a list": (
            "  struct doca_flow_ordered_list_element *",
            "  const struct doca_flow_ordered_list_element *",
        ),
        "value": ("DOCA_FLOW_FWD_TARGET = 5", "DOCA_FLOW_FWD_TARGET = 6"),
        "order": ("  doca_be32_t src_ip\n  doca_be32_t dst_ip\n", "  doca_be32_t dst_ip\n  doca_be32_t src_ip\n"),
        "a member more": ("  uint32_t aging_sec\n", "  uint32_t aging_sec\n  uint64_t more\n"),
        "a member less": ("  doca_be32_t ack_num\n", ""),
        "an argument": ("doca_flow_port_start doca_error_t (const struct", "doca_flow_port_start doca_error_t (struct"),
        "a macro": ("DOCA_FLOW_VLAN_MAX 2", "DOCA_FLOW_VLAN_MAX 3"),
        "an enumerator less": ("  DOCA_FLOW_RSS_AUTO = 1073741824\n", ""),
        "a size": ("enum doca_flow_meter_color 1", "enum doca_flow_meter_color 4"),
        "absent": ("absent macro DOCA_FLOW_UDP_HEADER_LEN", "absent macro DOCA_FLOW_PROTO_UDP"),
    }
    result = {}
    for name, (right, wrong) in changes.items():
        assert right in text, f"{name}: {right!r} is not in the facts"
        result[name] = text.replace(right, wrong, 1)
    return result


def main() -> int:
    files = sorted(FACTS.glob("*.txt"))
    text = "\n".join(path.read_text() for path in files)
    wrong = compare(text)
    for line in wrong:
        print(line)
    missed = [name for name, changed in wrong_facts(text).items() if not wrong and not compare(changed)]
    for name in missed:
        print(f"{name}: wrong facts were not found to differ")
    print(f"{len(read(text).c)} lines of C from {len(files)} files of facts, {len(wrong)} differences")
    return 1 if wrong or missed else 0


sys.exit(main())
