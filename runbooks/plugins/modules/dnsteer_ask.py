#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module: ask DNS questions with kdig or dig, and fail unless every one is answered as expected."""

from __future__ import annotations

import math
import random
import re
import shlex
import shutil
import socket
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from itertools import compress
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: dnsteer_ask
short_description: ask DNS questions with kdig or dig
description:
  - Asks the questions that C(dnsteer probes --json) names, several at a time, each from a port that leads to its backend.
  - Fails where the program is missing, and unless every question is answered as it expects. Stops after 20 that are not.
  - A source port that is in use at the host is passed over for the next one.
author: dnsteer
version_added: 0.1.0
options:
  questions:
    description: Mappings with C(address), C(transport), C(port), C(backend), C(source_ports), C(query) and C(expect).
    type: list
    elements: dict
    required: true
  host:
    description: Name of the host that asks, for messages.
    type: str
    default: ""
  program:
    description: A program that takes dig's arguments.
    type: str
    default: kdig
  name:
    description: Name that is asked for, of type SOA if no C(type) is given. Empty for that of each question.
    type: str
    default: ""
  type:
    description: Type that is asked for. Empty for that of each question.
    type: str
    default: ""
  options:
    description:
      - Options of the program, for every question.
      - Empty for no retry, and the timeout of each question's C(query), 1 s where it has none, in whole seconds.
    type: list
    elements: str
    default: []
  transport_options:
    description: Further options by transport.
    type: dict
    default: {udp: [], tcp: [+tcp], tls: [+tls]}
  expect:
    description:
      - Regular expression that the program's output must contain.
      - Empty for what each question expects or, where a C(name) or C(type) is given, NOERROR.
    type: str
    default: ""
  count:
    description: How often each question is asked.
    type: int
    default: 1
  at_once:
    description: Programs at a time.
    type: int
    default: 8
"""
EXAMPLES = """
- name: Ask every backend through the VIPs
  dnsteer_ask:
    questions: "{{ (dnsteer_probes.stdout | from_json).questions }}"
  delegate_to: client-1
"""
RETURN = """
asked:
  description: Questions that were asked.
  returned: always
  type: int
"""
MAX_FAILURES = 20
_SECONDS = 60
"""A program that takes longer has lost its way."""
_SAID, _LINES = 160, 8
"""Characters of what a program said, and lines of failures, that a message has."""
_TAKEN = re.compile("can't assign address|address (already )?in use", re.IGNORECASE)
_WILDCARD = {4: (socket.AF_INET, "0.0.0.0"), 6: (socket.AF_INET6, "::")}
_STATUS = re.compile(r"->>HEADER<<-.* status: (\w+)")
_FLAGS = re.compile(r"^;; flags: ([a-z ]*); QUERY: (\d+)", re.IGNORECASE | re.MULTILINE)
_HALF = 1 << 31
_AS_WRITTEN = {"kdig": ["+noidn"], "dig": ["+noidnin", "+noidnout"]}
"""Options with which a name is not taken for an internationalised one: a spec may have names that IDNA refuses."""


class Answer:
    """An answer as kdig or dig prints it: *status* is empty where there is none."""

    def __init__(self, text: str) -> None:
        status, flags = _STATUS.search(text), _FLAGS.search(text)
        self.status = status[1] if status else ""
        self.flags = flags[1].lower().split() if flags else []
        self.has_question = flags is not None and flags[2] != "0"
        self.records = _section(text, "ANSWER")
        """Type and data of the records in the answer section."""
        self.refers = any(kind == "NS" for kind, _ in _section(text, "AUTHORITY"))


def _section(text: str, name: str) -> list[tuple[str, str]]:
    _, found, rest = text.partition(f";; {name} SECTION:\n")
    lines = (line.split(None, 4) for line in rest.split("\n\n")[0].splitlines()) if found else ()
    return [(words[3], words[4]) for words in lines if len(words) == 5 and not words[0].startswith(";")]


def judge(answer: Answer, kind: str, expect: dict[str, Any]) -> str:
    """Say what is wrong with an answer to a query of type *kind*; empty if it is as `dnsteer probes` expects."""
    rcodes = expect.get("rcode") or ["NOERROR"]
    bare, refused = not answer.has_question, answer.status == "REFUSED"
    if bare and (refused or answer.status == "NOERROR" or answer.status not in rcodes):
        return f"{answer.status} without the question{': is the address that asks allowed there?' if refused else ''}"
    if answer.status not in rcodes:
        return f"{answer.status}, expected {' or '.join(rcodes)}"
    for flag in ("aa", "ra"):
        wanted = expect.get(flag)
        if wanted is None or bare or answer.status not in expect[f"{flag}_rcodes"]:
            continue
        if (flag in answer.flags) != wanted:
            return f"{answer.status} {'without' if wanted else 'with'} {flag.upper()}"
    if answer.status != "NOERROR" or "tc" in answer.flags:  # with TC it is rate-limited, or too long: it serves
        return ""
    of_type = [data for found, data in answer.records if found == kind or kind == "ANY"]
    aliases = [] if of_type else [data for found, data in answer.records if found == "CNAME"]
    if len(of_type) + len(aliases) < int(expect.get("answers") or 0):
        referral = ": a referral" if answer.refers and "aa" not in answer.flags else ""
        return f"{answer.status} with {len(of_type)} {kind} records, expected {expect['answers']} or more{referral}"
    return _judge_data(of_type, expect)


def _judge_data(found: list[str], expect: dict[str, Any]) -> str:
    known = {_plain(data) for data in found}
    missing = [data for data in expect.get("answer") or () if _plain(data) not in known]
    if missing:
        return f"an answer without {missing[0]}"
    least = expect.get("serial_at_least")
    if least is None:
        return ""
    serials = [int(words[2]) for words in map(str.split, found) if len(words) > 2 and words[2].isdigit()]
    if not serials:
        return "an answer without SOA"
    behind = (serials[0] - least) % (2 * _HALF) >= _HALF  # RFC 1982
    return f"serial {serials[0]}, expected {least} or later" if behind else ""


def _plain(data: str) -> str:
    """A record's data, however it was written: kdig, dig and a zone file differ in quotes, final dots and spaces."""
    try:
        return str(ip_address(data))
    except ValueError:
        return "".join(word.rstrip(".") for word in data.replace('"', "").lower().split())


class Asking:
    """The questions, as the module's parameters have them, and those that failed."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params
        self.asked = 0
        self.failed: list[tuple[dict[str, Any], str, list[str]]] = []
        """The question, what is wrong with its answer, and the command line."""

    def ask_all(self) -> None:
        """Ask them all, one turn after the other; who has failed is not asked again."""
        open_questions = self.params["questions"]
        for turn in range(self.params["count"]):
            with ThreadPoolExecutor(self.params["at_once"]) as pool:
                answered = list(pool.map(lambda q, turn=turn: self._ask(q, turn), open_questions))
            open_questions = list(compress(open_questions, answered))

    def _ask(self, question: dict[str, Any], turn: int) -> bool:
        """Ask it, from the source ports that belong to this turn until one is free; whether the answer is good."""
        if len(self.failed) >= MAX_FAILURES:
            return False
        self.asked += 1
        each = question.get("source_ports") or [None]
        count = self.params["count"]
        said = f"source ports in use: {', '.join(map(str, each))}"
        argv: list[str] = []
        for port in each[turn % len(each) :: count]:
            if port is not None and not _free(question, port):
                continue
            argv = self._argv(question, port)
            said = self._run(question, argv)
            if not said:
                return True
            if port is None or not _TAKEN.search(said):
                break
        self.failed.append((question, said, argv))
        return False

    def _asked(self, question: dict[str, Any]) -> tuple[str, str, list[str]]:
        """The name and type that are asked for, and the options that go with them."""
        query = question.get("query") or {}
        name, kind = self.params["name"], self.params["type"]
        if name:
            return name, kind or "SOA", []
        with_it = ["+recurse" if query.get("recursion") else "+norecurse", "+ignore"]
        with_it += [option for key, option in (("cd", "+cdflag"), ("do", "+dnssec")) if query.get(key)]
        if query.get("edns_size"):
            with_it.append(f"+bufsize={query['edns_size']}")
        if query.get("rdclass", "IN") != "IN":
            with_it += ["-c", query["rdclass"]]
        name = query.get("name") or "."
        if name.startswith("*."):
            name = f"{random.getrandbits(40):x}{name[1:]}"
        return name, kind or query.get("type") or "SOA", with_it

    def _argv(self, question: dict[str, Any], source_port: int | None) -> list[str]:
        params, transport = self.params, question["transport"]
        source = [] if source_port is None else ["-b", f"{_WILDCARD[_version(question)][1]}#{source_port}"]
        name, kind, with_it = self._asked(question)
        as_written = _AS_WRITTEN["kdig" if "kdig" in Path(params["program"]).name else "dig"]
        seconds = math.ceil((question.get("query") or {}).get("timeout") or 1)
        return [
            params["program"],
            f"@{question['address']}",
            "-p",
            str(question["port"]),
            *source,
            *as_written,
            "-q",
            name,
            "-t",
            kind,
            *with_it,
            *(params["options"] or ["+retry=0", f"+timeout={seconds}"]),
            *(params["transport_options"].get(transport) or []),
        ]

    def _run(self, question: dict[str, Any], argv: list[str]) -> str:
        """Run the program; return what is wrong with the answer, empty if it is good."""
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"did not end within {_SECONDS} s"
        answer = Answer(done.stdout)
        if done.returncode or not answer.status:
            lines = [line.lstrip("; ") for line in f"{done.stderr}\n{done.stdout}".splitlines() if line.strip("; ")]
            return (_reason(lines) or f"exit code {done.returncode}")[:_SAID]
        params = self.params
        if params["expect"]:
            good = re.search(params["expect"], done.stdout) is not None
            return "" if good else f"{answer.status}, and the output does not match {params['expect']}"
        own = params["name"] or params["type"]
        return judge(answer, self._asked(question)[1], {} if own else question.get("expect") or {})

    def problem(self) -> str:
        """What failed, in short lines, those that are alike together; empty when nothing did."""
        if not self.failed:
            return ""
        alike = defaultdict(list)
        for question, said, _ in sorted(self.failed, key=lambda f: self.params["questions"].index(f[0])):
            alike[_service(question), said].append(question.get("backend"))
        lines = [
            f"{service}{' (' + ', '.join(map(str, backends)) + ')' if all(backends) else ''}: {said}"
            for (service, said), backends in alike.items()
        ]
        if len(lines) > _LINES:
            lines[_LINES:] = [f"and {len(lines) - _LINES} more"]
        if len(self.failed) >= MAX_FAILURES:
            lines.append(f"no more was asked after {MAX_FAILURES}")
        argv = next((argv for _, _, argv in self.failed if argv), [])
        tried = [f"to try it there: {shlex.join(argv)}"] if argv else []
        failed = f"{len(self.failed)} of {self.asked} questions got no good answer at {self.params['host']}"
        return "\n".join([f"{failed}:", *lines, *tried])


def _reason(lines: list[str]) -> str:
    """The line in which a program says why there is no answer."""
    taken = [line for line in lines if _TAKEN.search(line)]
    said = taken or [line for line in lines if re.match("(WARNING|ERROR)|.*(timed out|refused|no servers)", line)]
    return re.sub("^(WARNING|ERROR): ", "", (said or lines or [""])[0])


def _version(question: dict[str, Any]) -> int:
    return 6 if ":" in question["address"] else 4


def _service(question: dict[str, Any]) -> str:
    return f"{question['address']} {question['transport']}/{question['port']}"


def _free(question: dict[str, Any], port: int) -> bool:
    """Whether a program can bind to the source port: nobody has it, and no connection of before still waits there."""
    family, wildcard = _WILDCARD[_version(question)]
    kind = socket.SOCK_DGRAM if question["transport"] == "udp" else socket.SOCK_STREAM
    try:
        tried = socket.socket(family, kind)
    except OSError:  # no IPv6 here: the program says so
        return True
    with tried:
        try:
            tried.bind((wildcard, port))
        except OSError:
            return False
    return True


def main() -> None:
    """Run the module."""
    spec = {
        "questions": {"type": "list", "elements": "dict", "required": True},
        "host": {"type": "str", "default": ""},
        "program": {"type": "str", "default": "kdig"},
        "name": {"type": "str", "default": ""},
        "type": {"type": "str", "default": ""},
        "options": {"type": "list", "elements": "str", "default": []},
        "transport_options": {"type": "dict", "default": {"udp": [], "tcp": ["+tcp"], "tls": ["+tls"]}},
        "expect": {"type": "str", "default": ""},
        "count": {"type": "int", "default": 1},
        "at_once": {"type": "int", "default": 8},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    program = module.params["program"]
    module.params["host"] = module.params["host"] or socket.gethostname()
    if shutil.which(program) is None:
        module.fail_json(
            msg=f"there is no program {program} at {module.params['host']}: install it (Debian: knot-dnsutils has kdig, "
            "bind9-dnsutils has dig), or name another one with dnsteer_dig",
            asked=0,
        )
    asking = Asking(module.params)
    asking.ask_all()
    problem = asking.problem()
    if problem:
        module.fail_json(msg=problem, asked=asking.asked)
    module.exit_json(changed=False, asked=asking.asked, msg=f"{asking.asked} questions, every one answered")


if __name__ == "__main__":
    main()
