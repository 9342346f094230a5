# SPDX-License-Identifier: Apache-2.0
"""A metric that backends send: POST /load/POOL/BACKEND with a number."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from dnsteer.agent.balance.metric import MetricError
from dnsteer.metrics.server import LogLine, serve_application
from dnsteer.spec.model.balance import Balance, MetricSource
from dnsteer.spec.model.spec import Backend, Pool

MAX_NUMBER_BYTES = 64
"""Bytes of a number."""

Add = Callable[[str, str, float], None]
"""Takes the value of a pool's backend, in the unit of `full`. Raises MetricError."""


def sender_may(source: MetricSource, backend: Backend, sender: IPv4Address | IPv6Address) -> bool:
    """Whether a sender may send the metric of a backend: by default only the backend itself."""
    if isinstance(sender, IPv6Address) and sender.ipv4_mapped is not None:
        sender = sender.ipv4_mapped
    if source.allow:
        return any(sender in network for network in source.allow)
    return sender in (backend.ipv4, backend.ipv6)


def push_application(pools: Callable[[], Mapping[str, Pool]], add: Add, refused: LogLine) -> Starlette:
    """The application. *pools* are those of the applied spec; *refused* gets what was refused for its sender."""

    async def load(request: Request) -> Response:
        name, backend_name = request.path_params["pool"], request.path_params["backend"]
        pool = pools().get(name)
        source = _source(pool.balance if pool is not None else None)
        backend = next((b for b in pool.backends if b.name == backend_name), None) if pool is not None else None
        sender = ip_address(request.client.host) if request.client is not None else None
        if source is None or backend is None or sender is None or not sender_may(source, backend, sender):
            # The same answer for a pool that is not there: who may not send learns nothing.
            refused(f"a load of {name[:64]!r}/{backend_name[:64]!r} from {sender} was refused")
            return PlainTextResponse("not yours to say\n", 403)
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > MAX_NUMBER_BYTES:
                    return PlainTextResponse(f"expected a number in at most {MAX_NUMBER_BYTES} bytes\n", 413)
            add(name, backend_name, _number(body))
        except ClientDisconnect:
            return Response(status_code=400)
        except (ValueError, MetricError) as err:
            why = str(err) if isinstance(err, MetricError) else "that is not a number"
            return PlainTextResponse(f"{why}; expected a number such as 0.83\n", 400)
        return Response(status_code=204)

    app = Starlette(routes=[Route("/load/{pool}/{backend}", load, methods=["POST"])])
    app.router.redirect_slashes = False
    return app


def _number(text: bytes) -> float:
    """Read a number. Raises ValueError, also for what only Python takes for one."""
    if b"_" in text:
        raise ValueError
    return float(text)


def _source(balance: Balance | None) -> MetricSource | None:
    found = balance.source if balance is not None else None
    return found if found is not None and found.push else None


async def serve_push(host: str, port: int, app: Starlette, say: LogLine, context: ssl.SSLContext | None = None) -> None:
    """Serve until cancelled, as `serve_application` does."""
    await serve_application(host, port, app, say, "loads of backends", "/load/POOL/BACKEND", context)
