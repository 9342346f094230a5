"""`apply` as a function, for tests of what it does to a switch."""

from __future__ import annotations

from collections.abc import Callable

from dnsteer.control.deploy import Options, deploy
from dnsteer.control.where import Switch
from dnsteer.spec.load import Loaded
from dnsteer.switch.apply import Applied


def apply(
    loaded: Loaded,
    remote: str,
    *,
    openflow: str | None = None,
    adopt: bool = False,
    timeout: float = 10,
    progress: Callable[[str], None] = lambda _: None,
) -> Applied:
    """Deploy, and what was done to the switch."""
    return deploy(loaded, Switch(remote, openflow, timeout), Options(adopt=adopt, grace=0), progress=progress).applied
