# SPDX-License-Identifier: Apache-2.0
"""Builds and runs each flow sample of a checkout of NVIDIA's doca-samples on the model, and prints what came of it.

    python run_samples.py CHECKOUT [--model BUILD] [--dpdk PREFIX] [--keep DIR] [--strict] [SAMPLE...]

CHECKOUT has samples/doca_flow and applications/common; BUILD is a build directory of datapath_ext. Needs gcc, DPDK's headers
and libraries (libdpdk-dev; --dpdk PREFIX where they are unpacked elsewhere), and Python's yaml and scapy. Each sample is
compiled unmodified and run with the packets of its .yaml, in their order; frames that leave and texts are compared.
Nothing is written but to a temporary directory, or the one of --keep.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from scapy import all as scapy

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TIMEOUT = 60
FLAGS = (
    "-w",
    "-DALLOW_EXPERIMENTAL_API",
    "-DDOCA_ALLOW_EXPERIMENTAL_API",
    "-DDOCA_BUNDLE_DPDK_FOUND",
    "-D_GNU_SOURCE",
    "-march=corei7",
    "-g1",
)
LIBRARIES = ("eal", "mempool", "mempool_ring", "mbuf", "ethdev", "net", "ring", "meter", "kvargs", "telemetry")
CONTRIBUTED = ("geneve", "gtp", "mpls", "nsh", "roce")
WRAPS = ("sleep", "usleep", "rte_eal_init")
ORDER = ("as expected", "differs", "refused", "ends badly", "no packets", "does not compile")


@dataclass(frozen=True)
class Verdict:
    """What became of a sample, and why."""

    sample: str
    word: str
    why: str = ""


@dataclass(frozen=True)
class Harness:
    """Where the samples, the model and DPDK are."""

    checkout: Path
    model: Path
    includes: tuple[str, ...]
    links: tuple[str, ...]
    strict: bool

    def compile(self, folder: Path, program: Path, *more: str) -> str:
        """Compile a sample with *more* flags. Returns what the compiler says if it does not."""
        flow, name = folder.parent, folder.name
        sources = [
            folder / f"{name}_main.c",
            folder / f"{name}_sample.c",
            flow / "flow_common.c",
            flow.parent / "common.c",
        ]
        sources += [
            flow / file
            for file in ("flow_switch_common.c", "flow_ct_common.c", "flow_eth_common.c")
            if uses(folder, file)
        ]
        sources += [self.checkout / "applications/common/dpdk_utils.c", HERE / "hook.c"]
        where = (ROOT / "datapath_ext/model/include", folder, flow, flow.parent, self.checkout / "applications/common")
        command = [
            "gcc",
            *FLAGS,
            *more,
            *(f"-I{path}" for path in where),
            *self.includes,
            *map(str, sources),
            "-o",
            str(program),
        ]
        command += [f"-Wl,--wrap={name}" for name in WRAPS]
        command += [f"-L{self.model}", f"-Wl,-rpath,{self.model}", "-ldoca_flow_model", *self.links, "-lm", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else first_error(done.stderr)

    def run(
        self, program: Path, folder: Path, description: dict[str, Any], case: dict[str, Any], number: int
    ) -> list[str]:
        """Run a use case. Returns what differs from what is expected."""
        frames, results = folder / f"frames-{number}", folder / f"results-{number}"
        frames.write_text(frames_of(case))
        devices, options = devices_of(description)
        environment = {
            **os.environ,
            "SAMPLE_FRAMES": str(frames),
            "SAMPLE_RESULTS": str(results),
            "DOCA_FLOW_MODEL_DEVICES": devices,
            "SAMPLE_PORTS": str(description["number_of_ports"]),
            "LD_LIBRARY_PATH": str(self.model),
        }
        if self.strict:
            environment["DOCA_FLOW_MODEL_STRICT"] = "1"
        try:
            done = subprocess.run(
                [program, *options, *str(case["args"] or "").split()],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            return ["ends badly: not within 60 s"]
        text = done.stdout + done.stderr
        (folder / f"text-{number}").write_text(text)
        if done.returncode != 0:
            return [
                f"{'refused' if refusal(text) else 'ends badly'}: {refusal(text) or f'exit code {done.returncode}'}"
            ]
        out = results.read_text() if results.exists() else ""
        return [*differences(case, out), *missing_texts(case, text)]


def uses(folder: Path, file: str) -> bool:
    """Whether a sample is linked with a file of what samples share."""
    return any(file in text.read_text() for text in folder.glob("meson.build*"))


def first_error(text: str) -> str:
    """What a compiler or linker said first."""
    found = re.search(r"(?:fatal )?error: (.*)|undefined reference to (.*)", text)
    return (found[1] or found[0]).strip() if found else text.strip().splitlines()[-1]


def refusal(text: str) -> str:
    """What the model said when it refused first; empty if it refused nothing."""
    lines = [
        line
        for line in text.splitlines()
        if re.search(r"NOT_SUPPORTED|not supported|Operation not supported|\[ERR\]|refus", line)
    ]
    return re.sub(r"^(\[[^\]]*\])+:?\s*", "", lines[0])[:160] if lines else ""


def devices_of(description: dict[str, Any]) -> tuple[str, list[str]]:
    """The devices that the model offers, and the options by which the sample opens them: all in the order of its ports."""
    ports = description.get("ports_description") or description.get("ports_decription") or {}
    kinds = list(ports.values()) or ["doca_dev"] * description["number_of_ports"]
    names, options, device = [], [], ""
    for number, kind in enumerate(kinds):
        if "rep" in str(kind):
            names.append(f"{device},r{number}")
            options += ["-r", f"{device},r{number}"]
        else:
            device = f"d{number}"
            names.append(device)
            if number + 1 == len(kinds) or "rep" not in str(kinds[number + 1]):
                options += ["-a", f"{device},dv_flow_en=2"]
    return " ".join(names), [*options, "-l", "60"]


def names() -> dict[str, Any]:
    """What a packet may be written with: scapy, and those of its contributions that samples use."""
    found = {**vars(scapy), "bytes": bytes, "range": range}
    for module in CONTRIBUTED:
        try:
            found.update(vars(importlib.import_module(f"scapy.contrib.{module}")))
        except ImportError:
            continue
    return found


NAMES = names()


def packet(text: str) -> bytes:
    """The bytes of a packet as scapy's expression writes it: the samples' own, so no more is evaluated than scapy has."""
    return bytes(eval(text, {"__builtins__": {}}, NAMES))


def frames_of(case: dict[str, Any]) -> str:
    """The frames of a use case, as hook.c reads them."""
    lines = []
    for stage in case["stages"] or []:
        for sent in stage.get("packets_to_send") or []:
            lines += [f"{sent['receiving_port']} {packet(text).hex()}" for text in sent["packets"] or []]
        lines.append("stage")
    return "".join(f"{line}\n" for line in lines)


def validations(case: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What a use case expects, of a kind: `packet` or `dump`."""
    every = (v for stage in case["stages"] or [] for v in stage.get("validation") or [])
    return [v for v in every if v.get("type") == kind]


def differences(case: dict[str, Any], results: str) -> list[str]:
    """What left against what should have, as multisets of frames by port."""
    wanted: Counter[tuple[int, str]] = Counter()
    for validation in validations(case, "packet"):
        for expected in validation["expected_packets"] or []:
            wanted.update((expected["forwarding_port"], packet(text).hex()) for text in expected["packets"] or [])
    found: Counter[tuple[int, str]] = Counter()
    for line in results.splitlines():
        verdict, port, frame = line.split(" ", 3)[:3]
        if verdict == "sent":
            found[int(port), frame] += 1
    if not validations(case, "packet"):
        return []
    missing, more = wanted - found, found - wanted
    said = [f"{sum(missing.values())} of {sum(wanted.values())} frames are missing"] if missing else []
    return [*said, *([f"{sum(more.values())} frames beyond those expected"] if more else [])]


def missing_texts(case: dict[str, Any], text: str) -> list[str]:
    """The expected texts that were not printed, each as often as it is expected."""
    wanted = Counter(str(line) for v in validations(case, "dump") for line in v["expected_text"] or [])
    lacks = [line for line, number in wanted.items() if text.count(line) < number]
    return [f"text missing: {lacks[0]!r}" + (f" and {len(lacks) - 1} more" if len(lacks) > 1 else "")] if lacks else []


def judge(harness: Harness, folder: Path, work: Path) -> Verdict:
    """Build and run one sample."""
    name = folder.name
    here = work / name
    here.mkdir(parents=True, exist_ok=True)
    more = ""
    if wrong := harness.compile(folder, here / name):
        if harness.compile(
            folder, here / name, "-include", "assert.h"
        ):  # the SDK's headers include it, the model's do not
            return Verdict(name, "does not compile", wrong)
        more = "with <assert.h>"
    description = yaml.safe_load(next(folder.glob("*.yaml")).read_text())
    cases = description.get("use_cases") or []
    if not cases:
        return Verdict(name, "no packets", "its .yaml has none")
    try:
        for case in cases:
            frames_of(case)
    except Exception as err:  # noqa: BLE001  of an expression in the sample's description
        return Verdict(name, "no packets", f"scapy cannot make them: {err}")
    found = [
        difference
        for n, case in enumerate(cases)
        for difference in harness.run(here / name, here, description, case, n)
    ]
    if not found:
        return Verdict(
            name, "as expected", ", ".join(filter(None, [f"{len(cases)} cases" if len(cases) > 1 else "", more]))
        )
    word = next((word for word in ("refused", "ends badly") if found[0].startswith(word)), "differs")
    return Verdict(name, word, ", ".join(filter(None, [found[0].removeprefix(f"{word}: "), more])))


def dpdk(prefix: Path | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How to compile with DPDK, and to link with its environment and buffers. Raises SystemExit where it is not there."""
    libraries = ("-Wl,--no-as-needed", *(f"-lrte_{name}" for name in LIBRARIES))
    if prefix is None:
        done = subprocess.run(["pkg-config", "--cflags", "libdpdk"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(
                "run_samples.py: found no libdpdk; install libdpdk-dev, or unpack it and what it needs: --dpdk PREFIX"
            )
        return tuple(done.stdout.split()), libraries
    headers = sorted(
        {path.parent for path in prefix.rglob("rte_config.h")} | {path.parent for path in prefix.rglob("rte_eal.h")}
    )
    headers += [path for path in [prefix / "usr/include"] if path.exists()]  # of libbsd
    places = sorted({path.parent for path in prefix.rglob("librte_eal.so")})
    if not headers or not places:
        sys.exit(f"run_samples.py: {prefix}: found no rte_eal.h or librte_eal.so")
    return tuple(f"-I{path}" for path in headers), (*(f"-L{path}" for path in places), *libraries)


def main() -> int:
    """Run the samples that are asked for."""
    parser = argparse.ArgumentParser(description="Run NVIDIA's flow samples on the software model of DOCA Flow.")
    parser.add_argument("checkout", type=Path, help="a checkout of github.com/NVIDIA-DOCA/doca-samples")
    parser.add_argument("samples", nargs="*", help="names of samples; all if left out")
    parser.add_argument("--model", type=Path, default=ROOT / "build/plain", help="build directory of datapath_ext")
    parser.add_argument("--dpdk", type=Path, help="where DPDK's headers are unpacked, if not installed")
    parser.add_argument("--keep", type=Path, help="directory for programs, frames and texts")
    parser.add_argument("--strict", action="store_true", help="the model's strict mode")
    options = parser.parse_intermixed_args()
    flow = options.checkout.resolve() / "samples/doca_flow"
    folders = sorted(path.parent for path in flow.glob("flow_*/flow_*_main.c"))
    if not folders:
        sys.exit(
            f"run_samples.py: {flow}: found no samples, expected flow_*/flow_*_main.c; is it a checkout of doca-samples?"
        )
    if unknown := set(options.samples) - {folder.name for folder in folders}:
        sys.exit(f"run_samples.py: found no sample {', '.join(sorted(unknown))}; they are in {flow}")
    model = (options.model / "model").resolve()
    if not (model / "libdoca_flow_model.so").exists():
        sys.exit(f"run_samples.py: {model}: found no libdoca_flow_model.so; build it: make extension")
    harness = Harness(options.checkout.resolve(), model, *dpdk(options.dpdk), options.strict)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(os.cpu_count()) as pool:
        work = (options.keep or Path(temporary)).resolve()
        chosen = [folder for folder in folders if not options.samples or folder.name in options.samples]
        verdicts = list(pool.map(lambda folder: judge(harness, folder, work), chosen))
    print("| verdict | samples |\n|---|---|")
    for word in ORDER:
        some = [v for v in verdicts if v.word == word]
        if some:
            print(f"| {len(some)}: {word} | {', '.join(v.sample + (f' ({v.why})' if v.why else '') for v in some)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
