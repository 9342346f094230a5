# SPDX-License-Identifier: Apache-2.0
"""What an operator gives beside a spec: files of variables, and folders from which it may include files."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SpecInputs:
    """Files of variables, and folders outside the spec's own from which it may include files."""

    vars_files: tuple[Path, ...] = ()
    include_from: tuple[Path, ...] = ()


NO_INPUTS = SpecInputs()
SPEC_INPUTS: ContextVar[SpecInputs] = ContextVar("spec_inputs", default=NO_INPUTS)
"""Those of the verb that runs."""
