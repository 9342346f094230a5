#!/usr/bin/python
"""Module: ask DNS questions with kdig or dig, and fail unless every one is answered as expected."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: dnsteer_ask
short_description: ask DNS questions with kdig or dig
description:
  - Asks the questions that C(dnsteer probes --json) names, several at a time, each from a port that leads to its backend.
  - Fails where the program is missing, and unless every question is answered as expected. Stops after 20 that are not.
  - A source port that is in use at the host is passed over for the next one.
author: dnsteer
version_added: 0.1.0
options:
  questions:
    description: List of mappings with C(address), C(transport), C(port), C(backend) and C(source_ports).
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
    description: Name that is asked for.
    type: str
    default: "."
  type:
    description: Type that is asked for.
    type: str
    default: NS
  options:
    description: Options of the program, for every question.
    type: list
    elements: str
    default: []
  transport_options:
    description: Further options by transport.
    type: dict
    default: {udp: [], tcp: [+tcp], tls: [+tls]}
  expect:
    description: Regular expression that the program's output must contain.
    type: str
    default: "status: NOERROR"
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
    name: example.com
    type: SOA
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
_SAID = 400
"""Characters of a program's output that are repeated."""
_TAKEN = re.compile("can't assign address|address (already )?in use", re.IGNORECASE)
_WILDCARD = {4: (socket.AF_INET, "0.0.0.0"), 6: (socket.AF_INET6, "::")}


class Asking:
    """The questions, as the module's parameters have them, and those that failed."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params
        self.asked = 0
        self.failed: list[tuple[str, str]] = []
        """What was asked, and what was said."""

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
            good, said = self._run(argv)
            if good:
                return True
            if port is None or not _TAKEN.search(said):
                break
        self.failed.append((_name(question), f"{' '.join(argv)}: {said}" if argv else said))
        return False

    def _argv(self, question: dict[str, Any], source_port: int | None) -> list[str]:
        params, transport = self.params, question["transport"]
        source = [] if source_port is None else ["-b", f"{_WILDCARD[_version(question)][1]}#{source_port}"]
        return [
            params["program"], f"@{question['address']}", "-p", str(question["port"]), *source, params["name"],
            params["type"], *params["options"], *(params["transport_options"].get(transport) or []),
        ]  # fmt: skip

    def _run(self, argv: list[str]) -> tuple[bool, str]:
        """Whether the answer is good, and what the program said."""
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False, f"did not end within {_SECONDS} s"
        good = done.returncode == 0 and re.search(self.params["expect"], done.stdout) is not None
        said = " ".join(f"{done.stdout} {done.stderr}".split())
        return good, said if len(said) <= _SAID else f"{said[:_SAID]} ..."

    def problem(self) -> str:
        """What failed, in words; empty when nothing did."""
        if not self.failed:
            return ""
        names = list(dict.fromkeys(name for name, _ in self.failed))
        more = f", and no more was asked after {MAX_FAILURES}" if len(self.failed) >= MAX_FAILURES else ""
        return f"no good answer at {self.params['host']} from {', '.join(names)}{more}; {self.failed[0][1]}"


def _version(question: dict[str, Any]) -> int:
    return 6 if ":" in question["address"] else 4


def _name(question: dict[str, Any]) -> str:
    """The question in a few words: where it goes, and who is to answer."""
    backend = question.get("backend")
    return f"{question['address']} {question['transport']}/{question['port']}" + (f" ({backend})" if backend else "")


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
        "name": {"type": "str", "default": "."},
        "type": {"type": "str", "default": "NS"},
        "options": {"type": "list", "elements": "str", "default": []},
        "transport_options": {"type": "dict", "default": {"udp": [], "tcp": ["+tcp"], "tls": ["+tls"]}},
        "expect": {"type": "str", "default": "status: NOERROR"},
        "count": {"type": "int", "default": 1},
        "at_once": {"type": "int", "default": 8},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    program = module.params["program"]
    module.params["host"] = module.params["host"] or socket.gethostname()
    if shutil.which(program) is None:
        module.fail_json(
            msg=f"there is no program {program} at {module.params['host']}: install it (Debian: knot-dnsutils has kdig, "
            "bind9-dnsutils has dig), or name another one with dnsteer_dig", asked=0,
        )  # fmt: skip
    asking = Asking(module.params)
    asking.ask_all()
    problem = asking.problem()
    if problem:
        module.fail_json(msg=problem, asked=asking.asked)
    module.exit_json(changed=False, asked=asking.asked, msg=f"{asking.asked} questions, every one answered")


if __name__ == "__main__":
    main()
