"""The codes of what lint finds. They are stable: a code keeps its meaning, and is not used again when it goes.

Each has a page in docs/lint, which `dnsteer lint --explain CODE` prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from importlib import resources
from pathlib import Path


class Severity(str, Enum):
    """How bad it is. Errors end lint with exit code 1, warnings with 2; notes are for reading."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Code:
    """A sort of finding."""

    code: str
    severity: Severity
    title: str

    def page(self) -> str:
        """The page that explains it, as Markdown."""
        return (_pages() / f"{self.code}.md").read_text(encoding="utf-8")


def _pages() -> Path:
    """Where the pages are: inside the installed package, or in docs of a source checkout."""
    packaged = Path(str(resources.files("dnsteer"))) / "lint_pages"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "docs" / "lint"


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

QUERIES_IN_SOFTWARE = Code("DNS001", _E, "Queries are not offloaded")
ANSWERS_IN_SOFTWARE = Code("DNS002", _E, "Answers are not offloaded")
CLASSIFIED_ONLY = Code("DNS003", _E, "Hardware only classifies; the CPU forwards")
UNKNOWN = Code("DNS004", _W, "Nobody has published whether this is offloaded")
SOFTWARE_FLAVOR = Code("DNS005", _N, "This flavor forwards in software")
PASSES = Code("DNS010", _W, "More than one pass for each packet")
SPLIT = Code("DNS011", _N, "A rule is too wide and is split")
RULES = Code("DNS012", _W, "More datapath flows than slots")
FLOW_LIMIT = Code("DNS013", _W, "More datapath flows than flow-limit allows")
TABLE_SIZE = Code("DNS014", _E, "More hardware rules than the card holds")
HASH_AND_CONNTRACK = Code("DNS015", _W, "dp-hash and connection tracking on one switch")
COUNTERS = Code("DNS016", _W, "More datapath flows than counters")
WITHOUT_TRACKING = Code("DNS017", _N, "dp-hash is offloaded only without tracked connections")
ONE_ESWITCH = Code("DNS018", _N, "Offload between uplinks rests on a multiport eSwitch")
TABLES = Code("DNS019", _W, "More masks or tracker zones than hardware has")
FRAGMENTS = Code("DNS020", _N, "Fragments run on the CPU")
NEIGHBORS = Code("DNS021", _N, "ARP, neighbour discovery and echo run on the CPU")
REFUSED = Code("DNS022", _N, "Some dropped packets are dropped by the CPU")
UNUSUAL = Code("DNS023", _N, "Some unusual packets of a service run on the CPU")
MASK_BUDGET = Code("DNS030", _E, "Hostile traffic can make more masks than the budget")
MASK_BOUND_WRONG = Code("DNS031", _E, "More masks were seen than were computed")
SCANS = Code("DNS032", _W, "Port scans can make more datapath flows than flow-limit allows")
MORE_SLOTS = Code("DNS033", _N, "More slots would bring shares nearer to the weights")
FEWER_SLOTS = Code("DNS034", _N, "Fewer slots would take fewer hardware rules")
UNREADABLE = Code("DNS040", _W, "A datapath flow that cannot be read")
NOTHING_TO_ACCEPT = Code("DNS050", _W, "A finding is accepted that does not occur")
EXTENSION = Code("DNS060", _N, "The extension does this, and lint cannot judge it")
ESWITCH_TWICE = Code("DNS061", _N, "Packets pass the eSwitch twice, and the extension between")
TRANSLATED_FRAGMENTS = Code("DNS062", _N, "Fragments of answers to translate are dropped")
NO_FUNCTIONS = Code("DNS063", _W, "The extension has no scalable functions here")

CODES: dict[str, Code] = {c.code: c for c in globals().copy().values() if isinstance(c, Code)}
"""All of them by code."""
