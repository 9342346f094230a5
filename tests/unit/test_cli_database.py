# SPDX-License-Identifier: Apache-2.0
"""An OVSDB that is missing, dead, stuck or of somebody else, and Open vSwitch that is not there: what the command says."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dnsteer.lab import names
from dnsteer.switch import rpc
from dnsteer.switch.rpc import parse_remote
from tests.unit.commands import ENV, RUN, SPEC, Command


@pytest.mark.parametrize("verb", ["apply", "verify"])
def test_a_missing_socket_is_named(verb: str, place: Path, command: Command) -> None:
    said = f"dnsteer: OVSDB at unix:{place}/db.sock: there is no such socket; is it running?\n"
    assert command(verb, SPEC, "--db", f"unix:{place}/db.sock") == (69, "", said)


def test_a_database_from_the_environment(place: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DNSTEER_DB", f"unix:{place}/db.sock")
    assert f"unix:{place}/db.sock" in command("verify", SPEC)[2]


@pytest.mark.parametrize("verb", ["history", "status", "bringup"])
def test_the_default_socket_follows_ovs_rundir(
    verb: str, place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DNSTEER_DB", raising=False)
    monkeypatch.setenv("OVS_RUNDIR", str(place))
    if verb == "bringup":
        assert f"unix:{place}/db.sock" in command("bringup", SPEC, "--check")[1]
        return
    said = f"dnsteer: OVSDB at unix:{place}/db.sock (from OVS_RUNDIR): there is no such socket; is it running?\n"
    assert command(verb) == (69, "", said)
    monkeypatch.chdir(place.parent)
    monkeypatch.setenv("OVS_RUNDIR", place.name)  # relative
    assert "(from OVS_RUNDIR): there is no such socket" in command(verb)[2]
    other = command(verb, "--db", f"unix:{place}/other.sock")[2]
    assert f"unix:{place}/other.sock" in other and "OVS_RUNDIR" not in other


def test_the_switch_of_a_lab_is_named(place: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DNSTEER_DB", raising=False)
    monkeypatch.setenv("OVS_RUNDIR", str(place / "own"))
    lab = place / "lab.sock"
    monkeypatch.setattr(names, "DB_SOCKET", lab)
    assert "lab" not in command("status")[2].replace(str(place), "")
    lab.touch()
    hint = f"    hint: a lab is up, whose switch is another one: export DNSTEER_DB=unix:{lab}\n"
    for argv in (("status",), ("history",), ("apply", SPEC)):
        code, _, said = command(*argv)
        assert code == 69 and said.endswith(hint), said
    assert "hint" not in command("status", "--db", f"unix:{place}/other.sock")[2]  # who names one means it


@pytest.mark.parametrize("kind", ["unix", "file", "tcp"])
def test_a_dead_database_is_named(kind: str, place: Path, command: Command) -> None:
    remote = f"unix:{place}/db.sock"
    with socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX) as dead:
        if kind == "file":
            (place / "db.sock").write_text("")
        elif kind == "unix":
            dead.bind(f"{place}/db.sock")  # nobody listens
        else:
            dead.bind(("127.0.0.1", 0))
            remote = f"tcp:127.0.0.1:{dead.getsockname()[1]}"
        done = command("verify", SPEC, "--db", remote)
    assert done == (69, "", f"dnsteer: OVSDB at {remote}: nobody listens there; is it running?\n")


GREETINGS = {
    "says nothing": (b"", "does not answer within 0.5 s"),
    "says half of it": (b'{"id": 1, "result": {"tables"', "does not answer within 0.5 s"),
    "drips": (b'{"id": 1, "result": {"tables"', "does not answer within 0.5 s"),
    "asks back only": (b'{"id": "echo", "method": "echo", "params": []}', "does not answer within 0.5 s"),
    "refuses": (b'{"id": 1, "result": null, "error": {"error": "unknown database"}}', "unknown database"),
}


@pytest.mark.parametrize("how", GREETINGS)
@pytest.mark.parametrize("verb", ["apply", "verify"])
def test_a_stuck_database_is_given_up_in_time(how: str, verb: str, place: Path) -> None:
    said, message = GREETINGS[how]
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(f"{place}/db.sock")
        server.listen()
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "dnsteer", verb, SPEC, "--db", f"unix:{place}/db.sock", "--timeout", "0.5"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=ENV,
            )
        )
        peer, _ = server.accept()
        start = time.monotonic()
        peer.sendall(said)
        if how == "drips":
            with suppress(OSError):
                while process.poll() is None:
                    peer.sendall(b" ")
        _, errors = process.communicate(timeout=20)
        peer.close()
    assert process.returncode == (1 if how == "refuses" else 69)
    assert message in errors
    assert "Traceback" not in errors
    assert time.monotonic() - start < 15


def test_errors_are_printed_as_json(place: Path, command: Command) -> None:
    code, shown, said = command("apply", SPEC, "--db", f"unix:{place}/db.sock", "--json")
    assert (code, said) == (69, "")
    message = f"OVSDB at unix:{place}/db.sock: there is no such socket; is it running?"
    assert json.loads(shown) == {"ok": False, "error": message}


def test_a_database_without_permission_is_named(place: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_remote: str, _timeout: float) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(rpc, "_connect", refused)
    done = command("verify", SPEC, "--db", f"unix:{place}/db.sock")
    assert done == (77, "", f"dnsteer: {place}/db.sock: Permission denied; run as root or as the owner\n")


@pytest.mark.parametrize("verb", ["check", "explain"])
def test_verbs_without_ovs_programs_name_them(verb: str, place: Path) -> None:
    query = ["--client", "198.51.100.7:40001", "--vip", "198.51.100.53:53/udp"] if verb == "explain" else []
    done = subprocess.run(
        [sys.executable, "-c", RUN, verb, SPEC, *query],
        capture_output=True,
        text=True,
        check=False,
        env={**ENV, "PATH": str(place), "TMPDIR": str(place)},
    )
    assert done.returncode == 69
    assert "is not installed; install Open vSwitch (Debian: apt-get install openvswitch-switch)" in done.stderr
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("unix:/run/db.sock", "unix:/run/db.sock"),
        ("unix:db.sock", f"unix:{Path.cwd()}/db.sock"),
        ("tcp:127.0.0.1:6640", "tcp:127.0.0.1:6640"),
        ("tcp:[::1]:6640", "tcp:[::1]:6640"),
        ("ssl:1.2.3.4:6640", "ssl:1.2.3.4:6640"),
        ("ssl:[::1]:6640", "ssl:[::1]:6640"),
    ],
)
def test_remotes_are_parsed(text: str, remote: str) -> None:
    assert parse_remote(text) == remote


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unix:",
        "db.sock",
        "tcp:1.2.3.4",
        "tcp:1.2.3.4:0",
        "tcp:1.2.3.4:65536",
        "tcp:host:1",
        "ssl:1.2.3.4",
        "ssl:1.2.3.4:0",
        "ssl:host:1",
        "ssl:::1:6640",
        "ssl:",
        "ptcp:6640",
        "pssl:6640",
        "punix:x",
    ],
)
def test_malformed_remotes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected unix:PATH"):
        parse_remote(text)
