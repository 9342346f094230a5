"""A change that somebody asks for in a form: checked, as arguments of a verb, and in words."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dnsteer.deploy.verb_request import VerbOutcome, VerbRequest

VERBS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "drain": ("Drain", ("over", "for", "note")),
    "undrain": ("Undrain", ()),
    "down": ("Take down", ("for", "note")),
    "up": ("Bring up", ()),
    "rollback": ("Roll back to state", ("note",)),
}
"""The verbs, what pages call them, and the options that they take."""
MAX_NOTE = 500
"""Characters of a note, as on the command line."""
_TIME = re.compile(r"\d{1,9}(\.\d{1,3})?[smhd]?")


class WrongRequestError(Exception):
    """A request that cannot be: the message says what was found, and what is expected, *field* which one is to be changed;
    empty where that is none that people fill in.
    """

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True)
class ChangeRequest:
    """A verb with the backend (POOL/BACKEND) or the number of the state that it is about, and its options by name."""

    verb: str
    about: str
    options: Mapping[str, str]

    @property
    def title(self) -> str:
        """What it would do."""
        return f"{VERBS[self.verb][0]} {self.about}"

    @property
    def back(self) -> str:
        """The page that it was asked for on."""
        return f"/changes/{self.about}" if self.verb == "rollback" else f"/pools/{self.about.partition('/')[0]}"

    def asked(self, by: str, bridge: str, expected: str = "") -> VerbRequest:
        """As a verb; without *expected*, the fingerprint that the preview found, as the preview itself."""
        argv = [self.verb, f"--bridge={bridge}", *(f"--{name}={value}" for name, value in self.options.items())]
        return VerbRequest(
            (*argv, *(["--yes"] if expected else ["--dry-run", "--json"]), "--", self.about), by, expected
        )


def request_of(fields: Mapping[str, str], backends: Collection[str]) -> ChangeRequest:
    """Read a form, for a switch with these backends (POOL/BACKEND). Raises WrongRequestError."""
    verb, about = fields.get("verb", ""), fields.get("about", "")
    if verb not in VERBS:
        raise WrongRequestError(f"found the verb {verb[:20]!r}; expected one of {', '.join(VERBS)}")
    if verb == "rollback" and not (about.isascii() and about.isdigit() and len(about) < 10):
        raise WrongRequestError(f"found {about[:20]!r}; expected the number of a state")
    if verb != "rollback" and about not in backends:
        raise WrongRequestError(f"found {about[:200]!r}; expected a backend of the applied spec: choose one", "about")
    options = {name: fields[name].strip() for name in VERBS[verb][1] if fields.get(name, "").strip()}
    for name, what in (("for", "For"), ("over", "Over")):
        if name in options and not _TIME.fullmatch(options[name]):
            raise WrongRequestError(
                f"{what}: found {options[name][:20]!r}; expected a time such as 90s, 15m, 2h or 1d", name
            )
    note = options.get("note", "")
    if len(note) > MAX_NOTE:
        raise WrongRequestError(f"Note: found {len(note)} characters; expected at most {MAX_NOTE}", "note")
    strange = next((c for c in note if not c.isprintable()), None)
    if strange is not None:
        why = f"Note: found the character {strange!a}; expected one line of text without control characters"
        raise WrongRequestError(why, "note")
    return ChangeRequest(verb, about, options)


@dataclass(frozen=True)
class Preview:
    """What a change would do, in words. *asks* is what the command line asks about; *error* why it is refused.

    *found* is the fingerprint of the record that it was made on.
    """

    found: str = ""
    words: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changed: bool = False
    error: str = ""


def preview_of(outcome: VerbOutcome) -> Preview:
    """What a preview has found."""
    try:
        value: dict[str, Any] = json.loads(outcome.out)
    except ValueError:
        value = {}
    if not value.get("ok"):
        findings = "\n".join(_finding(each) for each in value.get("errors", ()))
        return Preview(outcome.found, error=value.get("error") or findings or plain_answer(outcome.said) or "it failed")
    words = list(value.get("words", ()))
    words += [each["text"] for key in ("changes", "moves") if "words" not in value for each in value.get(key, ())]
    words += [value["named"]] if value.get("named") else []
    words += [*value.get("ended", ()), *value.get("returned", ()), *value.get("extension", {}).get("text", ())]
    if not words and value.get("changed"):
        words.append("tables or settings that differ from the record are put right")
    warnings = (*value.get("warnings", ()), *value.get("notes", ()))
    return Preview(outcome.found, tuple(words), tuple(value.get("asks", ())), warnings, bool(value.get("changed")))


def plain_answer(text: str) -> str:
    """What a verb said, without the frame and the advice around wrong usage."""
    lines = [line.strip("│ ") if line.startswith("│") else line for line in text.splitlines()]
    said = "\n".join(line for line in lines if line and not line.startswith(("Usage:", "Try '", "╭", "╰")))
    return said.removeprefix("Error: ").removeprefix("Invalid value: ")


def _finding(value: Mapping[str, Any]) -> str:
    hint = f" ({value['hint']})" if value.get("hint") else ""
    where = f"{value.get('file')}:{value.get('line')}: {value.get('path')}"
    return f"{where}: found {value.get('found')}; expected {value.get('expected')}{hint}"
