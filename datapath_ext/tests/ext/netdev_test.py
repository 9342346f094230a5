# SPDX-License-Identifier: Apache-2.0
"""The program on two network devices, with real packets: python3 netdev_test.py PROGRAM PROGRAMS. Skipped without root."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BINARY, PROGRAMS = sys.argv[1], Path(sys.argv[2])
QUERIES = 1000
SO_RCVBUFFORCE = 33  # not in the module


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False).returncode == 0


def checksum(data):
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def query(source_port):
    """A UDP packet to the VIP of the examples, checksum 0."""
    udp = source_port.to_bytes(2, "big") + (53).to_bytes(2, "big") + (12).to_bytes(2, "big") + bytes(2) + b"test"
    header = bytes([0x45, 0]) + (20 + len(udp)).to_bytes(2, "big") + bytes(4) + bytes([64, 17, 0, 0])
    header += socket.inet_aton("192.0.2.9") + socket.inet_aton("198.51.100.1")
    header = header[:10] + checksum(header) + header[12:]
    return bytes.fromhex("020000000002 020000000009 0800") + header + udp


def ask(path, **request):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(connection.makefile().readline())


def packets(device):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)  # the loads take longer than the queries
    raw.bind((device, 0))
    raw.settimeout(5)
    return raw


def send_queries(client, sent):
    for number in range(QUERIES):
        client.send(query(1000 + number % 64))
        time.sleep(0.001)
    sent.set()


def load_under_traffic(path, program, names):
    """While queries come in, the VIP is chosen by other slots and in other ways: none of them is lost."""
    sent, loads, received = threading.Event(), 0, 0
    with packets(names[1]) as client, packets(names[3]) as network:
        sender = threading.Thread(target=send_queries, args=(client, sent))
        sender.start()
        while not sent.is_set():
            changed = json.loads(json.dumps(program))
            changed["vips"][0]["select"] = ("slots", "spray")[loads % 2]
            changed["vips"][0]["slots"] = ["b1", "b2"] * (1 << loads % 4)
            assert ask(path, command="load", program=changed)["ok"]
            loads += 1
        sender.join()
        while received < QUERIES:
            assert network.recv(2000)[:5].hex() == "0200000000", received
            received += 1
    assert loads > 10, loads
    assert ask(path, command="load", program=program)["ok"]


def start(directory, names, example, log):
    """The program on the devices, and the path of its socket."""
    path = str(directory / "control.sock")
    program = json.loads((PROGRAMS / f"{example}.json").read_text())
    program["ports"] = {"in": names[0], "out": names[2]}
    (directory / "program.json").write_text(json.dumps(program))
    environment = {
        **os.environ,
        "DOCA_FLOW_MODEL_DEVICES": f"{names[0]} {names[2]}",
        "DOCA_FLOW_MODEL_PORTS": f"0=netdev:{names[0]} 1=netdev:{names[2]}",
    }
    arguments = [BINARY, "--program", str(directory / "program.json"), "--socket", path]
    return program, path, subprocess.Popen(arguments, stderr=log, env=environment)


def wait_until_started(directory, process):
    deadline = time.monotonic() + 20
    while "started" not in (directory / "log").read_text():
        assert time.monotonic() < deadline and process.poll() is None, (directory / "log").read_text()
        time.sleep(0.05)


def says_of_a_small_mtu(directory, names):
    """Tunnels over IPv6 do not fit a port of 1530 bytes, those over IPv4 do."""
    assert ip("link", "set", names[2], "mtu", "1530")
    with (directory / "log").open("w") as log:
        _, _, process = start(directory, names, "ipip", log)
        with process:
            try:
                wait_until_started(directory, process)
            finally:
                process.kill()
    assert ip("link", "set", names[2], "mtu", "1500")
    lines = [json.loads(line) for line in (directory / "log").read_text().splitlines() if '"mtu"' in line]
    wanted = {"level": "warning", "port": names[2], "found": 1530, "expected": 1540, "tunnel_family": 6}
    assert [{key: line[key] for key in wanted} for line in lines] == [wanted], lines
    (directory / "control.sock").unlink()


def run(directory, names):
    with (directory / "log").open("w") as log:
        program, path, process = start(directory, names, "l2-slots", log)
    with process:
        try:
            wait_until_started(directory, process)
            with packets(names[1]) as client, packets(names[3]) as network:
                for port in (1000, 1002):
                    client.send(query(port))
                    frame = network.recv(2000)
                    assert frame[:6].hex() == ("020000000011" if port == 1000 else "020000000012"), frame.hex()
                    assert frame[6:42] == query(port)[6:42]
            counters = ask(path, command="counters")
            assert counters["vips"][0]["packets"] == 2, counters
            load_under_traffic(path, program, names)
            counters = ask(path, command="counters")
            assert counters["vips"][0]["packets"] == 2 + QUERIES and counters["dropped"]["missed"] == 0, counters
            # Gone and there again: the library's port was the old one's.
            ip("link", "del", names[2])
            assert ip("link", "add", names[2], "type", "veth", "peer", "name", names[3])
            status = ask(path, command="status")
            assert status["state"] == "degraded" and not status["ports"][1]["present"], status
            answer = ask(path, command="load", program=program)
            assert not answer["ok"] and answer["error"].startswith(f"port {names[2]} is gone: vip dns4 "), answer
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            log_text = (directory / "log").read_text()
            assert '"port_gone"' in log_text and '"stopped"' in log_text, log_text
        finally:
            process.kill()


def main():
    names = [f"dex{os.getpid() % 100000}{letter}" for letter in "abcd"]
    if os.geteuid() != 0 or not ip("link", "add", names[0], "type", "veth", "peer", "name", names[1]):
        print("not root, or no virtual network devices")
        sys.exit(77)
    try:
        assert ip("link", "add", names[2], "type", "veth", "peer", "name", names[3])
        for name in names:
            assert ip("link", "set", name, "up")
        with tempfile.TemporaryDirectory() as directory:
            says_of_a_small_mtu(Path(directory), names)
            run(Path(directory), names)
    finally:
        ip("link", "del", names[0])
        ip("link", "del", names[2])
    print("2 tests")


main()
