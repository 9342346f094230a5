# SPDX-License-Identifier: Apache-2.0
"""Where a server is not installed, its tests are skipped; what set-up installs must be there in CI."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.servers.required_servers import need_server


@pytest.mark.parametrize(
    ("ci", "program", "outcome", "said"),
    [
        ("true", "/usr/sbin/nsd", pytest.fail, "needs /usr/sbin/nsd: scripts/packages.sh; CI=true"),
        ("", "/usr/sbin/nsd", pytest.skip, "needs /usr/sbin/nsd: scripts/packages.sh"),
        ("true", "/usr/sbin/knotd", pytest.skip, "needs /usr/sbin/knotd: scripts/packages.sh servers"),
    ],
)
def test_a_server_that_is_not_installed_is_named_or_skipped(
    ci: str, program: str, outcome: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(outcome.Exception) as raised:
        need_server(program)
    assert raised.value.msg == said
