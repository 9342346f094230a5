# SPDX-License-Identifier: Apache-2.0
"""The helper's side of the talk with a probe: one JSON object a line, requests on stdin and answers on stdout."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Mapping
from typing import Any

Handler = Callable[..., dict[str, Any]]


def serve(handlers: Mapping[str, Handler]) -> None:
    """Answer requests until stdin ends. A request names its handler by `do`; the rest are the handler's arguments."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("do")](**request)
        except (OSError, ValueError) as err:
            answer = {"error": str(err)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def allow_open_files(count: int) -> None:
    """Let this process have *count* sockets beside the files it has. Raises ValueError when it may not."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = count + 64
    if most not in (resource.RLIM_INFINITY,) and want > most:
        raise ValueError(f"{count} sockets, and this process may open {most} files: raise `ulimit -Hn`")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < want:
        resource.setrlimit(resource.RLIMIT_NOFILE, (want, most))
