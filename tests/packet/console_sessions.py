# SPDX-License-Identifier: Apache-2.0
"""Browsers and programs at the console of a real agent: tokens, sessions, and the forms of its pages."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import httpx

from dnsteer.console.tokens import append_token, new_token
from tests.packet.agents import Agent, wait


def secrets_in(file: Path, **roles: str) -> dict[str, str]:
    """Make a file of tokens: a secret for each name."""
    made = {}
    for name, role in roles.items():
        made[name], token = new_token(name, role)  # type: ignore[arg-type]
        append_token(file, token)
    return made


def serves_at(running: Agent, what: str = "console") -> str:
    """Where an agent serves."""
    running.waits_for(f"{what} at http")
    found = re.search(rf"{what} at (https?://[^/\s]+)/", running.said())
    assert found is not None
    return found[1]


def fields_of(page: str, action: str) -> dict[str, str]:
    """The hidden fields of a form of a page."""
    form = re.search(rf'<form [^>]*action="{action}">(.*?)</form>', page, re.DOTALL)
    assert form is not None, page
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[1])
    return {name: unescape(value) for name, value in found}


@dataclass
class Visit:
    """A browser at a console, as far as HTTP goes: it keeps cookies, and says where its forms come from."""

    client: httpx.Client
    at: str

    def get(self, path: str, **headers: str) -> httpx.Response:
        """A page."""
        return self.client.get(self.at + path, headers={"accept": "text/html", **headers})

    def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Send a form."""
        own = {"origin": self.at, "sec-fetch-site": "same-origin", "accept": "text/html"}
        return self.client.post(self.at + path, data=fields, headers={**own, **headers})

    def sign_in(self, secret: str) -> Visit:
        """Sign in."""
        done = self.post("/sign-in", {"token": secret, "next": "/"})
        assert done.status_code == 303, done.text
        return self

    def csrf(self) -> str:
        """The word of the session."""
        return fields_of(self.get("/changes").text, "/sign-out")["csrf"]

    def preview(self, verb: str, about: str, **options: str) -> httpx.Response:
        """Ask what a change would do."""
        return self.post("/changes/preview", {"csrf": self.csrf(), "verb": verb, "about": about, **options})

    def confirm(self, preview: str) -> httpx.Response:
        """Do what a preview says."""
        return self.post("/changes/confirm", fields_of(preview, "/changes/confirm"))

    def change(self, verb: str, about: str, **options: str) -> str:
        """Preview a change, and do it; the page of what came of it."""
        return self.confirm_and_read(self.preview(verb, about, **options).text)

    def confirm_and_read(self, preview: str) -> str:
        """Do what a preview says; the page of what came of it."""
        done = self.confirm(preview)
        assert done.status_code == 303, done.text
        wait(lambda: "Under way since" not in self.get(done.headers["location"]).text, lambda: done.headers["location"])
        return self.get(done.headers["location"]).text


@contextmanager
def visit(at: str, ca: Path | None = None) -> Iterator[Visit]:
    """A browser that has not signed in."""
    trusts: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca) if ca is not None else True
    with httpx.Client(verify=trusts, timeout=20, trust_env=False) as client:
        yield Visit(client, at)
