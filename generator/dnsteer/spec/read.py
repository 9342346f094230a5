# SPDX-License-Identifier: Apache-2.0
"""Read specs: from files with all that belongs to them, from texts, and from records."""

from __future__ import annotations

from pathlib import Path as FilePath

from dnsteer.spec.document import Document
from dnsteer.spec.errors import Finding
from dnsteer.spec.parts.compose import compose, may_have_parts, without_requirement
from dnsteer.spec.parts.effective_text import as_own_text, is_effective, restore_places
from dnsteer.spec.parts.inputs import SPEC_INPUTS
from dnsteer.spec.source import STDIN, sent_content, shown
from dnsteer.spec.yaml_reader import decode_yaml, parse_yaml, read_bytes, read_yaml


def read_document(file: FilePath) -> Document:
    """Read the spec in *file*, standard input where it is `-`, with all files that it includes and its variables.

    Raises SpecError when a file cannot be read, is not UTF-8, is too large, is empty or is not YAML as specs are, and for
    what is wrong with includes, variables and defaults.
    """
    sent = sent_content(file)
    if sent is not None:  # by who has read what belongs to it
        return _recorded(decode_yaml(shown(file), sent))
    return _composed(read_yaml(file), file)


def _composed(document: Document, file: FilePath) -> Document:
    """The spec whose own *file* is *document*."""
    document.text = as_own_text(document.text)
    return compose(document, FilePath() if file == STDIN else file.parent, SPEC_INPUTS.get())


def parse_document(name: str, text: str) -> Document:
    """Parse the spec *text*, named *name* in messages. It can include no files. Raises SpecError as read_document does."""
    document = parse_yaml(name, text)
    document.text = as_own_text(document.text)
    return compose(document, None, SPEC_INPUTS.get())


def parse_recorded(name: str, text: str) -> Document:
    """Parse a spec that was recorded, or sent, in one piece; its lines are those of the files that it was made of.

    Raises SpecError as read_document does.
    """
    return _recorded(parse_yaml(name, text))


def _recorded(document: Document) -> Document:
    if is_effective(document.text):
        restore_places(document)
    return without_requirement(document)  # it was met when it was recorded, or sent


def read_effective(file: FilePath) -> Document:
    """Read a spec as `read_document` does; its text is the effective one, also where it is a single file."""
    document = read_yaml(file)
    return compose(document, FilePath() if file == STDIN else file.parent, SPEC_INPUTS.get(), always=True)


def text_to_send(file: FilePath) -> tuple[bytes, tuple[Finding, ...]]:
    """What a spec's *file* holds for somebody else, who has none of its other files: in one piece, where it has some.

    With the warnings of putting it together, which nobody finds in the text. Raises SpecError as read_document does; of a
    file in one piece only when it cannot be read or is too large.
    """
    data = read_bytes(file)
    text = data.decode("utf-8-sig", errors="replace")
    if not (SPEC_INPUTS.get().vars_files or is_effective(text) or may_have_parts(text)):
        return data, ()
    document = _composed(decode_yaml(shown(file), data), file)
    return document.text.encode(), document.warnings
