# SPDX-License-Identifier: Apache-2.0
"""The published measurements that the model is fitted to: `ovs/hardware/*.yaml`, each figure with its unit and source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding, SpecError, show_value
from dnsteer.spec.model.part import DataPart
from dnsteer.spec.model.spec import Hardware
from dnsteer.spec.model.types import wrong_value
from dnsteer.spec.yaml_reader import read_yaml

Text = Annotated[str, Field(min_length=1)]
Measures = Literal[
    "switch-rate",
    "switch-rate-kept",
    "switch-bandwidth",
    "full-rate-frame",
    "knee",
    "latency",
    "engine-latency",
    "connections",
    "transactions",
    "core-latency",
    "core-rate",
    "core-bandwidth",
]
TrackingBy = Literal["none", "ovs-dpdk-hw", "ovs-dpdk-sw", "ovs-kernel-hw", "ovs-kernel-sw"]

_KINDS: Mapping[Measures, tuple[str, frozenset[str], frozenset[str]]] = {
    # unit, conditions that a row must give, and those that it may give
    "switch-rate": ("Mpps", frozenset({"depth"}), frozenset({"entries", "counters", "rewrites", "frames"})),
    "switch-rate-kept": ("share", frozenset({"entries"}), frozenset()),
    "switch-bandwidth": ("Gb/s", frozenset({"depth"}), frozenset({"tracking"})),
    "full-rate-frame": ("B", frozenset({"depth", "rewrites"}), frozenset()),
    "knee": ("Mpps", frozenset({"depth", "rewrites"}), frozenset()),
    "latency": ("us", frozenset({"depth"}), frozenset({"tracking"})),
    "engine-latency": ("us", frozenset({"engine", "transport"}), frozenset()),
    "connections": ("thousand/s", frozenset({"tracking_by"}), frozenset()),
    "transactions": ("thousand/s", frozenset({"tracking_by"}), frozenset()),
    "core-latency": ("us", frozenset({"cores_of", "mpps"}), frozenset()),
    "core-rate": ("Mpps", frozenset({"cores_of", "cores"}), frozenset()),
    "core-bandwidth": ("Gb/s", frozenset({"cores_of", "cores"}), frozenset()),
}


def _number(value: Any) -> float:
    """Parse a positive number. The document reader returns decimals as text, so that specs have none by accident."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if 0 < number < 1e12:
            return number
    raise wrong_value("a number above 0")


def _figure(value: Any) -> float:
    """Parse a number of any sign, for figures that are only displayed."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise wrong_value("a number") from None


Number = Annotated[float, BeforeValidator(_number)]
Figure = Annotated[float, BeforeValidator(_figure)]
Count = Annotated[int, Field(ge=0, strict=True)]


class Publication(DataPart):
    """A publication with figures: its title and where to find it."""

    title: Text
    place: Text


class FigureRow(DataPart):
    """One published figure and its measuring conditions. Conditions that are left out were not varied."""

    value: Number
    note: str = ""
    unexplained: str = Field("", description="why the model cannot predict it from the other rows")
    depth: Annotated[int, Field(ge=1, strict=True)] = 1
    entries: Count = 0
    counters: bool = Field(False, strict=True)
    rewrites: Count = 0
    tracking: bool = Field(False, strict=True)
    frames: Literal["below 64 B", "64 B", "above 64 B"] | None = None
    engine: Literal["eswitch", "hairpin", "dpdk-testpmd", "arm-scheduler"] | None = None
    transport: Literal["rdma", "tcp", "udp"] | None = None
    tracking_by: TrackingBy | None = None
    cores_of: Literal["host", "arm"] | None = None
    cores: Annotated[int, Field(ge=1, strict=True)] = 1
    mpps: Number | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the conditions that the row gives, by name."""
        given = self.model_fields_set - {"value", "note", "unexplained"}
        return {name: getattr(self, name) for name in type(self).model_fields if name in given}


class Measurement(DataPart):
    """The rows of one published table or figure."""

    id: Text
    measures: Measures
    unit: Text
    source: Text
    where: str = ""
    about: Text
    rows: Annotated[tuple[FigureRow, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits(self) -> Measurement:
        unit, must, may = _KINDS[self.measures]
        if self.unit != unit:
            raise ValueError(f'the unit "{self.unit}" of {self.id}, which is in {unit}')
        for number, row in enumerate(self.rows):
            given = set(row.conditions())
            if must - given:
                raise ValueError(f"row {number} of {self.id} without {', '.join(sorted(must - given))}")
            if given - must - may:
                raise ValueError(f"row {number} of {self.id} with {', '.join(sorted(given - must - may))}")
        return self


class Fact(DataPart):
    """One property of the card."""

    value: Number
    unit: Text
    about: Text
    source: Text
    where: str = ""


class UnmodelledFigure(DataPart):
    """Published figures that the model does not explain, and why."""

    id: Text
    source: Text
    where: str = ""
    about: Text
    values: dict[str, Figure]
    why: Text


class CardFacts(DataPart):
    """Properties of the card."""

    link_gbps: Fact
    most_gbps: Fact
    max_entries: Fact
    arm_cores: Fact


class Published(DataPart):
    """The contents of one hardware file: a card's facts and measurements, and their sources."""

    name: Text
    title: Text
    sources: dict[str, Publication]
    facts: CardFacts | None = None
    measurements: tuple[Measurement, ...] = ()
    not_modelled: tuple[UnmodelledFigure, ...] = ()

    @model_validator(mode="after")
    def _agree(self) -> Published:
        facts: list[Fact] = [getattr(self.facts, name) for name in CardFacts.model_fields] if self.facts else []
        named = (
            {m.source for m in self.measurements} | {a.source for a in self.not_modelled} | {f.source for f in facts}
        )
        for name in sorted(named - set(self.sources)):
            raise ValueError(f'a source "{name}" that is not in sources')
        for name in sorted(set(self.sources) - named):
            raise ValueError(f'a source "{name}" that nothing names')
        ids = [m.id for m in self.measurements] + [a.id for a in self.not_modelled]
        for name in sorted({i for i in ids if ids.count(i) > 1}):
            raise ValueError(f'the id "{name}" twice')
        return self

    def rows(self, *measures: Measures) -> Iterator[tuple[str, FigureRow]]:
        """Yield the rows of these kinds with their names (`used-entries[3]`), in the order of the file."""
        for table in self.measurements:
            if table.measures in measures:
                yield from ((f"{table.id}[{n}]", row) for n, row in enumerate(table.rows))


class HardwareError(SpecError):
    """A hardware file is not valid; has all findings."""


def hardware_dir() -> FilePath:
    """Return the directory of the hardware files: inside the installed package, or ovs/hardware of a source checkout."""
    packaged = FilePath(str(resources.files("dnsteer"))) / "hardware"
    return packaged if packaged.is_dir() else FilePath(__file__).resolve().parents[3] / "ovs" / "hardware"


@cache
def published(hardware: Hardware) -> Published:
    """Return the published figures of *hardware*. Raises HardwareError if the file is not valid."""
    return load_published(hardware_dir() / f"{hardware.value}.yaml")


def load_published(file: FilePath) -> Published:
    """Read a hardware file. Raises HardwareError with the line, what was found and what was expected."""
    try:
        doc = read_yaml(file)
    except SpecError as err:
        raise HardwareError(err.file, err.findings) from None
    if not isinstance(doc.value, dict):
        raise HardwareError(str(file), [Finding(1, (), show_value(doc.value), "a mapping")])
    try:
        found = Published.model_validate(doc.value)
    except ValidationError as err:
        raise HardwareError(str(file), [_finding(dict(e), doc) for e in err.errors(include_url=False)]) from None
    if found.name != file.stem:
        raise HardwareError(
            str(file), [Finding(doc.line(("name",)), ("name",), f'"{found.name}"', f'"{file.stem}", as the file')]
        )
    return found


def _finding(item: dict[str, Any], doc: Document) -> Finding:
    kind, path = str(item["type"]), tuple(step for step in item["loc"] if step != "[key]")
    line, ctx = doc.line(path), item.get("ctx", {})
    if kind == "missing":
        return Finding(doc.line(path[:-1]), path[:-1], f'no key "{path[-1]}"', f'the key "{path[-1]}"')
    if kind == "extra_forbidden":
        return Finding(line, path[:-1], f'the unknown key "{path[-1]}"', "a key of this part")
    if kind == "value_error":
        return Finding(line, path, str(ctx["error"]), "data that agree with themselves; see docs/capacity.md")
    expected = str(ctx.get("expected", "")).replace("'", "") or str(item["msg"])
    return Finding(line, path, show_value(item["input"]), expected)
