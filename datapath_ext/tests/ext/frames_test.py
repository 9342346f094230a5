# SPDX-License-Identifier: Apache-2.0
"""Frames through the program on the model, by standard input: python3 frames_test.py FRAMES PROGRAMS."""

import ipaddress
import json
import os
import subprocess
import sys
import time
from pathlib import Path

BINARY, PROGRAMS = sys.argv[1], Path(sys.argv[2])
# Neither must matter: the one refuses what is unproven, the other would connect ports.
ENVIRONMENT = {**os.environ, "DOCA_FLOW_MODEL_STRICT": "1", "DOCA_FLOW_MODEL_PORTS": "0=netdev:nonexistent"}
ETHER = bytes.fromhex("020000000002 020000000009")
CLIENT = {4: "192.0.2.9", 6: "2001:db8:9::9"}
VIP = {4: "198.51.100.1", 6: "2001:db8:1::1"}


class Frames:
    """A process that answers each line with one."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            [BINARY, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        if kind is not None:
            self.process.kill()
        code = self.process.wait(20)
        self.process.stdout.close()
        assert kind is not None or code == 0, code  # a sanitizer has its say at the end

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask(self, **request):
        return self.say(json.dumps(request))

    def send(self, *frames):
        """What left for each frame, as pairs of port and bytes; and its verdict."""
        answer = self.ask(frames=[[port, frame.hex()] for port, frame in frames])
        assert answer["ok"], answer
        results = [[(port, bytes.fromhex(frame)) for port, frame in result] for result in answer["results"]]
        assert len(results) == len(answer["verdicts"]) == len(frames)
        return results, answer["verdicts"]

    def send_one(self, frame, port="in"):
        results, verdicts = self.send((port, frame))
        assert verdicts[0][0] == "sent", verdicts
        return results[0]


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def address(text):
    return ipaddress.ip_address(text).packed


def ip(family, src, dst, protocol, payload, ttl=64):
    if family == 6:
        length = len(payload).to_bytes(2, "big")
        return bytes([0x60, 0, 0, 0]) + length + bytes([protocol, ttl]) + address(src) + address(dst) + payload
    header = bytes([0x45, 0]) + (20 + len(payload)).to_bytes(2, "big") + bytes(4) + bytes([ttl, protocol, 0, 0])
    header += address(src) + address(dst)
    return header[:10] + checksum(header) + header[12:] + payload


def transport(family, src, dst, protocol, src_port, dst_port):
    """UDP with 5 bytes, or a SYN; with its checksum."""
    ports = src_port.to_bytes(2, "big") + dst_port.to_bytes(2, "big")
    if protocol == 17:
        segment, at = ports + bytes([0, 13, 0, 0]) + b"query", 6
    else:
        segment, at = ports + bytes(8) + bytes([0x50, 2, 4, 0]) + bytes(4), 16
    pseudo = address(src) + address(dst) + len(segment).to_bytes(4, "big") + protocol.to_bytes(4, "big")
    return segment[:at] + checksum(pseudo + segment) + segment[at + 2 :]


def frame(family, src_port, protocol=17, src=None, dst=None, dst_port=53, ether=ETHER):
    src, dst = src or CLIENT[family], dst or VIP[family]
    payload = transport(family, src, dst, protocol, src_port, dst_port)
    return ether + (b"\x08\x00" if family == 4 else b"\x86\xdd") + ip(family, src, dst, protocol, payload)


def mac(backend):
    return bytes.fromhex("0200000000") + bytes([0x10 + backend])


def at_slot(slot):
    """A source port of this slot of eight; the examples' backends take turns."""
    return 40000 + 2 * slot, 1 + slot % 2


def test_l2_slots():
    with Frames("--program", str(PROGRAMS / "l2-slots.json"), "--strict") as frames:
        for family, protocol in (4, 17), (4, 6), (6, 17):
            for slot in range(8):
                port, backend = at_slot(slot)
                query = frame(family, port, protocol)
                assert frames.send_one(query) == [("out", mac(backend) + query[6:])]
        counters = frames.ask(command="counters")
        assert [vip["packets"] for vip in counters["vips"]] == [8, 8, 8], counters


def test_l2_client():
    with Frames("--program", str(PROGRAMS / "l2-client.json")) as frames:
        backends = set()
        for host in range(1, 33):
            query = frame(4, 40000, src=f"192.0.2.{host}")
            again = frame(4, 40001, src=f"192.0.2.{host}")
            ((port, first),), ((_, second),) = frames.send_one(query), frames.send_one(again)
            assert port == "out" and first[6:] == query[6:] and second[:6] == first[:6]
            backends.add(first[:6])
        assert backends == {mac(1), mac(2)}


def spray(*options):
    """The backends of 64 packets of one flow."""
    with Frames("--program", str(PROGRAMS / "l2-spray.json"), *options) as frames:
        query = frame(4, 40000)
        results, _ = frames.send(*[("in", query)] * 64)
        assert all(left[0][1][6:] == query[6:] for left in results)
        return [left[0][1][5] for left in results]


def test_l2_spray():
    first = spray()
    assert 16 < first.count(0x11) < 48 and set(first) == {0x11, 0x12}
    assert first == spray() == spray("--seed", "1")
    assert first != spray("--seed", "2") == spray("--seed", "2")


def test_ipip():
    """Both families in both: the tunnel's addresses and MACs, and the client's packet as it came."""
    with Frames("--program", str(PROGRAMS / "ipip.json"), "--strict") as frames:
        for inner in 4, 6:
            for slot, outer, src, dst in (0, 4, "192.0.2.1", "192.0.2.11"), (1, 6, "2001:db8::1", "2001:db8::12"):
                port, backend = at_slot(slot)
                query = frame(inner, port)
                ((where, left),) = frames.send_one(query)
                assert where == "out"
                assert left[:12] == mac(backend) + bytes.fromhex("020000000001")
                assert left[12:14] == (b"\x08\x00" if outer == 4 else b"\x86\xdd")
                header = left[14 : 14 + (20 if outer == 4 else 40)]
                assert left[14 + len(header) :] == query[14:]
                protocol = 4 if inner == 4 else 41
                if outer == 4:
                    assert header[9] == protocol and checksum(header) == bytes(2)
                    assert header[2:4] == (20 + len(query) - 14).to_bytes(2, "big")
                    assert header[12:] == address(src) + address(dst)
                else:
                    assert header[6] == protocol and header[4:6] == (len(query) - 14).to_bytes(2, "big")
                    assert header[8:] == address(src) + address(dst)


def test_siit():
    """A query and its answer: what SIIT (RFC 7915) makes of both, byte by byte."""
    with Frames("--program", str(PROGRAMS / "siit.json"), "--strict") as frames:
        for protocol in 17, 6:
            port, backend = at_slot(3)
            query = frame(4, port, protocol)
            client, server = "64:ff9b::192.0.2.9", f"2001:db8::1{backend}"
            expected = frame(6, port, protocol, client, server, ether=mac(backend) + ETHER[6:])
            assert frames.send_one(query) == [("out", expected)]
            answer = frame(6, 53, protocol, server, client, port)
            expected = frame(4, 53, protocol, VIP[4], CLIENT[4], port)
            assert frames.send_one(answer, "out") == [("in", expected)]


def test_what_does_not_leave():
    with Frames("--program", str(PROGRAMS / "l2-slots.json")) as frames:
        other, fragment = frame(4, 40000, dst_port=5353), bytearray(frame(4, 40000))
        fragment[20:22] = b"\x20\x00"
        fragment[24:26] = bytes(2)
        fragment[24:26] = checksum(bytes(fragment[14:34]))
        results, verdicts = frames.send(("in", other), ("in", bytes(fragment)), ("out", other), ("in", b"\0"))
        assert results == [[], [], [], []]
        assert [verdict for verdict, _ in verdicts] == ["dropped"] * 4, verdicts
        assert all(reason.startswith("classifier") for _, reason in verdicts), verdicts
        assert frames.send() == ([], [])


def test_commands():
    """As on the socket, also where a load has to come first."""
    program = json.loads((PROGRAMS / "l2-slots.json").read_text())
    with Frames() as frames:
        for request in {"command": "status"}, {"frames": []}, {}, {"command": 1}, {"command": "load", "x": 1}:
            answer = frames.ask(**request)
            assert not answer["ok"] and answer["error"].startswith("request"), answer
        answer = frames.ask(command="load", program={**program, "version": 2})
        assert not answer["ok"] and answer["error"].startswith("$.version"), answer
        answer = frames.ask(command="load", program=program)
        expected = {"ok": True, "added": 3, "replaced": 0, "removed": 0, "slots_updated": 0, "backends_updated": 0}
        assert answer == expected
        query = frame(4, 40000)
        assert frames.send_one(query)[0][1][:6] == mac(1)
        program["vips"][0]["slots"][0] = "b2"
        assert frames.ask(command="load", program=program) == {**expected, "added": 0, "slots_updated": 1}
        assert frames.send_one(query)[0][1][:6] == mac(2)
        assert frames.ask(command="drain", backend="b2")["slots"] > 0
        assert frames.send_one(query)[0][1][:6] == mac(1)
        answer = frames.ask(command="load", program={**program, "budgets": {**program["budgets"], "vips": 9}})
        assert not answer["ok"] and "restart" in answer["error"], answer
        assert frames.ask(command="status")["loads"] == 3
        assert len(frames.ask(command="dump")["services"]) == 3
        assert frames.ask(command="counters")["vips"][0]["packets"] == 3
        assert frames.ask(command="stop") == {"ok": True}
        assert frames.process.wait(20) == 0


def test_bad_lines():
    with Frames("--program", str(PROGRAMS / "l2-slots.json")) as frames:
        for line in (
            "",
            "nonsense",
            "[]",
            "7",
            '{"frames"',
            '{"frames":{}}',
            '{"frames":[],"frames":[]}',
            '{"frames":[],"more":1}',
            '{"command":"status","frames":[]}',
            '{"command":"reboot"}',
            "\0",
            '{"frames":[["in","\\u0000\\u0000"]]}',
        ):
            answer = frames.say(line)
            assert not answer["ok"] and answer["error"], (line, answer)
        good = ["in", frame(4, 40000).hex()]
        for bad in (
            [],
            ["in"],
            "in",
            ["up", "00"],
            ["in", ""],
            ["in", "0"],
            ["in", "0g"],
            ["in", "00" * 65536],
            ["in", 0],
            ["in", "00", "00"],
            ["in", "\u00e9\u00e9"],
            None,
        ):
            answer = frames.ask(frames=[good, bad])
            assert not answer["ok"] and answer["error"].startswith("request.frames[1]: found "), (bad, answer)
        assert frames.ask(command="counters")["vips"][0]["packets"] == 0, "a batch runs as a whole or not at all"
        assert frames.ask(frames=[["in", frame(4, 40000).hex().upper()]])["verdicts"][0][0] == "sent"
        assert frames.send(("in", bytes(65535)))[1][0][0] == "dropped"


def test_bad_starts():
    def start(*arguments):
        return subprocess.run([BINARY, *arguments], input="", capture_output=True, text=True, check=False)

    assert start("--help").stdout.startswith("usage")
    assert start().returncode == 0
    for arguments in ["--program"], ["more"], ["--seed", "0"], ["--seed", "x"], ["--log-level", "loud"], ["--nonsense"]:
        result = start(*arguments)
        assert result.returncode == 2 and json.loads(result.stderr)["event"] == "options", result
    missing = start("--program", "/nonexistent")
    assert missing.returncode == 1 and "/nonexistent" in json.loads(missing.stdout)["error"], missing


def test_speed():
    """Large batches; the bound is loose, since sanitizers and other tests run beside it."""
    with Frames("--program", str(PROGRAMS / "l2-slots.json")) as frames:
        batch = [["in", frame(4, 40000 + number).hex()] for number in range(2000)]
        line = json.dumps({"frames": batch})
        started = time.monotonic()
        answers = [frames.say(line) for _ in range(5)]
        rate = 10000 / (time.monotonic() - started)
        assert all(len(answer["results"]) == 2000 for answer in answers)
        print(f"{rate:.0f} frames per second")
        assert rate > 500, rate


def main():
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    for test in tests:
        print(test.__name__, file=sys.stderr)
        test()
    print(f"{len(tests)} tests")


main()
