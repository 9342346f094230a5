"""The paths of a spec: the one place where capacity asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dnsteer.offload.examine import examine
from dnsteer.offload.path import Path
from dnsteer.offload.profile import profile
from dnsteer.spec.load import Loaded


def paths_of(loaded: Loaded, progress: Callable[[int], None] = lambda _: None) -> Sequence[Path]:
    """What the datapath flows of *loaded* are on its flavor. Raises SwitchError and ProfileError as examine does."""
    return examine(loaded, profile(loaded.spec.switch.flavor.value), progress=progress).paths
