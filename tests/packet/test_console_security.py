# SPDX-License-Identifier: Apache-2.0
"""Who may reach the console: tokens, sessions, forms of others, TLS; on a real agent by HTTPS, without a switch."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from dnsteer.cli.agent import ConsoleAccess
from dnsteer.console.tokens import append_token, new_token
from dnsteer.switch.tools import SwitchError
from tests.packet.agents import Agent, wait
from tests.packet.command import run
from tests.packet.console_sessions import Visit, secrets_in, serves_at, visit

PATHS = ("/", "/pools", "/pools/farm", "/changes", "/changes/1", "/changes/runs/x", "/plan", "/none")
FOR_PROGRAMS = ("/metrics", "/events?page=overview")
POSTS = ("/changes/preview", "/changes/confirm", "/plan", "/sign-out")


class Nowhere:
    """A switch that is not there: the console serves all the same."""

    def __init__(self, folder: Path) -> None:
        self.database = f"unix:{folder}/db.sock"


@dataclass
class Served:
    """An agent with a console by HTTPS, its tokens by name, and a client that sends half a form."""

    agent: Agent
    at: str
    ca: Path
    folder: Path
    secrets: dict[str, str]
    slow: ssl.SSLSocket

    def connected(self) -> ssl.SSLSocket:
        """A connection."""
        context = ssl.create_default_context(cafile=self.ca)
        port = int(self.at.rpartition(":")[2])
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port), 20), server_hostname="localhost")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, pki: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("security")
    for name in ("web.pem", "web.key"):
        shutil.copy(pki / name, folder)
    secrets = secrets_in(folder / "tokens", alice="change", bob="read", carol="read")
    options = [
        "--console",
        "127.0.0.1:0",
        "--console-tokens",
        str(folder / "tokens"),
        "--metrics",
        "127.0.0.2:0",
        "--console-tls-cert",
        str(folder / "web.pem"),
        "--console-tls-key",
        str(folder / "web.key"),
    ]
    running = Agent(Nowhere(folder), folder / "log", *options)  # type: ignore[arg-type]
    try:
        found = Served(running, serves_at(running), pki / "ca.pem", folder, secrets, None)  # type: ignore[arg-type]
        found.slow = found.connected()
        found.slow.sendall(
            b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 100\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken="
        )
        yield found
        assert running.end() == 0, running.said()
        said = running.said()
        assert "Traceback" not in said and not [secret for secret in secrets.values() if secret in said]
    finally:
        running.end(signal.SIGKILL)


@pytest.fixture
def browser(served: Served) -> Iterator[Visit]:
    """A browser that has not signed in."""
    with visit(served.at, served.ca) as found:
        yield found


@pytest.fixture
def alice(served: Served, browser: Visit) -> Visit:
    return browser.sign_in(served.secrets["alice"])


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_every_page_needs_a_token(browser: Visit, method: str) -> None:
    for path in (*PATHS, *FOR_PROGRAMS):
        bare = browser.client.request(method, browser.at + path)
        assert (bare.status_code, bare.headers["www-authenticate"]) == (401, "Bearer"), path
    for path in PATHS:
        led = browser.client.request(method, browser.at + path, headers={"accept": "text/html"})
        assert (led.status_code, led.headers["location"].partition("?")[0]) == (303, "/sign-in"), path
        assert (
            led.headers["x-frame-options"] == "DENY" and "form-action 'self'" in led.headers["content-security-policy"]
        )
    for path in POSTS:
        assert browser.post(path, {}).status_code in (303, 401), path
    for path in ("/sign-in", "/assets/console.css", "/assets/forms.js"):
        answer = browser.client.request(method, browser.at + path)
        assert answer.status_code == 200 and "br-dns" not in answer.text
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_a_token_in_the_wrong_place_or_a_wrong_one(served: Served, browser: Visit) -> None:
    secret = served.secrets["alice"]
    for path in (f"/?token={secret}", f"/metrics?access_token={secret}", f"/?authorization=Bearer%20{secret}"):
        assert browser.client.get(browser.at + path).status_code == 401
    wrong = ("Bearer", f"Bearer {secret}x", f"Basic {secret}", "Bearer " + "a" * 2000)
    with local(served, "127.0.0.3") as client:
        for given in wrong:
            assert client.get(served.at, headers={"authorization": given}).status_code == 401, given[:20]
        two = [("authorization", f"Bearer {secret}"), ("authorization", "Bearer x")]
        assert client.get(served.at, headers=two).status_code == 401
    assert "console: a wrong token from 127.0.0.3" in served.agent.said()
    answer = browser.client.get(served.at, headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == 200 and "sign-out" not in answer.text


def local(served: Served, address: str) -> httpx.Client:
    """Programs at another address of this machine."""
    trusts = ssl.create_default_context(cafile=served.ca)
    transport = httpx.HTTPTransport(verify=trusts, local_address=address)
    return httpx.Client(transport=transport, timeout=20)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_programs_with_a_token_read(served: Served, browser: Visit, method: str) -> None:
    bearer = {"authorization": f"bearer {served.secrets['bob']}"}
    for path in ("/", "/changes", "/metrics"):
        answer = browser.client.request(method, served.at + path, headers=bearer)
        assert answer.status_code == 200 and "set-cookie" not in answer.headers, path
    posted = browser.client.post(served.at + "/changes/preview", data={}, headers={**bearer, "origin": served.at})
    assert (posted.status_code, "have signed in" in posted.text) == (403, True)


def test_the_metrics_address_needs_the_same_tokens(served: Served) -> None:
    alone = serves_at(served.agent, "metrics") + "/metrics"
    trusts = ssl.create_default_context(cafile=served.ca)
    trusts.check_hostname = False
    with httpx.Client(verify=trusts, timeout=20, trust_env=False) as client:
        assert alone.startswith("https://127.0.0.2:")
        assert client.get(alone, headers={"accept": "text/html"}).status_code == 401
        answer = client.get(alone, headers={"authorization": f"Bearer {served.secrets['bob']}"})
        assert answer.status_code == 200 and "dnsteer_switch_up" in answer.text
        bearer = {"authorization": f"Bearer {served.secrets['bob']}", "host": "dpu-9.example:9853"}
        assert client.get(alone, headers=bearer).status_code == 200, "scrapers may use any name"


def test_sign_in_starts_a_session_with_safe_cookies(served: Served, browser: Visit) -> None:
    wrong = browser.post("/sign-in", {"token": "dnsteer-" + "x" * 43, "next": "/"})
    assert (wrong.status_code, "not a token of this console" in wrong.text) == (403, True)
    for way, leads in (
        ("/changes", "/changes"),
        ("//evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil", "/"),
    ):
        done = browser.post("/sign-in", {"token": served.secrets["alice"], "next": way})
        assert (done.status_code, done.headers["location"]) == (303, leads)
    cookie = done.headers["set-cookie"]
    port = served.at.rpartition(":")[2]
    assert re.match(rf"__Host-dnsteer-{port}=[\w-]{{43}};", cookie)
    for flag in ("HttpOnly", "Secure", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert flag.lower() in cookie.lower(), cookie
    assert "Domain" not in cookie
    held = dict(browser.client.cookies)
    assert browser.get("/").status_code == 200 and "alice" in browser.get("/").text
    assert browser.post("/sign-out", {"csrf": browser.csrf()}).headers["location"] == "/sign-in"
    assert browser.get("/").status_code == 303
    browser.client.cookies.update(held)
    assert browser.get("/").status_code == 303, "its id is good for nothing any more"
    assert "alice (change) signed in from 127.0.0.1" in served.agent.said()


def test_forms_of_others_are_refused(served: Served, alice: Visit) -> None:
    own = {"csrf": alice.csrf()}
    with visit(served.at, served.ca) as other:
        others = other.sign_in(served.secrets["alice"]).csrf()
    ways: list[tuple[dict[str, str], dict[str, str], str]] = [
        ({"verb": "drain"}, {}, "not of this session"),
        ({"csrf": ""}, {}, "not of this session"),
        ({"csrf": own["csrf"][:-1]}, {}, "not of this session"),
        ({"csrf": others}, {}, "not of this session"),
        (own, {"origin": "https://evil.example"}, "nother site"),
        (own, {"origin": "null"}, "nother site"),
        (own, {"origin": served.at.replace("https", "http")}, "nother site"),
        (own, {"sec-fetch-site": "cross-site"}, "nother site"),
        (own, {"sec-fetch-site": "same-site"}, "nother site"),
        (own, {"sec-fetch-site": "none"}, "nother site"),
        (own, {}, "does not act on the switch"),
    ]
    for fields, headers, why in ways:
        answer = alice.post("/changes/preview", fields, **headers)
        assert (answer.status_code, why in answer.text) == (403, True), (fields, headers, answer.text)
    bare = alice.client.post(alice.at + "/changes/preview", data=own)
    assert (bare.status_code, "nother site" in bare.text) == (403, True)
    evil = alice.post("/sign-in", {"token": served.secrets["alice"]}, origin="https://evil.example")
    assert evil.status_code == 403
    assert alice.get("/changes/preview").status_code in (404, 405)
    assert alice.post("/", own).status_code == 405
    assert alice.client.put(alice.at + "/changes/preview").status_code == 405


def test_forms_are_bounded(alice: Visit) -> None:
    for path in ("/changes/preview", "/sign-in"):
        assert alice.post(path, {"csrf": "x" * (64 << 10)}).status_code == 413
    own = {"origin": alice.at, "sec-fetch-site": "same-origin"}
    for kind, content, status in (
        ("multipart/form-data; boundary=x", b"--x--", 415),
        ("application/json", b"{}", 415),
        ("application/x-www-form-urlencoded", b"&".join(b"a%d=1" % n for n in range(33)), 400),
        ("application/x-www-form-urlencoded", b"csrf=1&csrf=2", 400),
        ("application/x-www-form-urlencoded", b"csrf=%ff", 400),
    ):
        headers = {**own, "content-type": kind}
        assert alice.client.post(alice.at + "/plan", content=content, headers=headers).status_code == status, content

    def without_end() -> Iterator[bytes]:
        for _ in range(20):
            yield b"a" * 8192

    headers = {**own, "content-type": "application/x-www-form-urlencoded"}
    try:
        done = alice.client.post(alice.at + "/sign-out", content=without_end(), headers=headers)
    except httpx.WriteError:
        pass  # it was closed while we wrote
    else:
        assert done.status_code == 413


def test_too_many_forms_and_too_many_wrong_tokens(served: Served, browser: Visit) -> None:
    fields = {"csrf": browser.sign_in(served.secrets["bob"]).csrf()}
    found = [browser.post("/changes/preview", fields).status_code for _ in range(66)]
    assert found[0] == 403 and 60 <= found.index(429) <= 64, found
    assert browser.get("/").status_code == 200
    right = {"authorization": f"Bearer {served.secrets['bob']}"}
    with local(served, "127.0.0.9") as client:
        tried = [client.get(served.at, headers={"authorization": f"Bearer {n}"}) for n in range(12)]
        codes = [answer.status_code for answer in tried]
        assert codes[0] == 401 and codes.index(429) == 10 and int(tried[-1].headers["retry-after"]) <= 6
        assert client.get(served.at, headers=right).status_code == 200, "others there may have a right one"
        assert client.get(f"{served.at}/metrics", headers=right).status_code == 200
    assert served.agent.said().count("a wrong token from 127.0.0.9") == 10


def test_only_host_names_of_the_certificate_are_served(alice: Visit) -> None:
    port = alice.at.rpartition(":")[2]
    for name, status in (
        ("dpu-1.example.net", 200),
        ("DPU-1.example.net", 200),
        ("evil.example", 421),
        ("example.net", 421),
    ):
        answer = alice.client.get(alice.at + "/assets/console.css", headers={"host": f"{name}:{port}"})
        assert answer.status_code == status, name


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
def test_tls_below_1_2_is_refused(served: Served) -> None:
    port = int(served.at.rpartition(":")[2])
    old = ssl.create_default_context(cafile=served.ca)
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", port), 20) as sock, pytest.raises(ssl.SSLError):
        old.wrap_socket(sock, server_hostname="localhost")
    with served.connected() as sock:
        assert sock.version() == "TLSv1.3" and sock.selected_alpn_protocol() is None
    with pytest.raises(httpx.HTTPError):
        httpx.get(served.at.replace("https", "http"), timeout=20)


def test_a_revoked_token_ends_its_sessions(served: Served, browser: Visit) -> None:
    file = served.folder / "tokens"
    browser.sign_in(served.secrets["carol"])
    with browser.client.stream("GET", browser.at + "/events?page=changes") as stream:
        lines = stream.iter_lines()
        next(lines)
        kept = [line for line in file.read_text().splitlines() if not line.startswith("carol ")]
        file.write_text("# without carol\n" + "\n".join(kept))
        assert "event: reload" in list(lines)[-3:], "the page is read again, which leads to sign-in"
    assert browser.get("/").status_code == 303
    served.agent.waits_for("console: tokens read again: 2")
    browser.sign_in(served.secrets["alice"])
    file.chmod(0o640)
    wait(lambda: browser.get("/changes").status_code == 303, served.agent.said)
    served.agent.waits_for(f"no token is valid until this is put right: {file}: others than its owner may use it")
    file.chmod(0o600)
    wait(lambda: browser.get("/changes").status_code == 200, served.agent.said)


def test_a_renewed_certificate_is_served(served: Served, pki: Path) -> None:
    def serial() -> str:
        with served.connected() as sock:
            return str(sock.getpeercert()["serialNumber"])  # type: ignore[index]

    before = serial()
    shutil.copy(pki / "expired.pem", served.folder / "web.pem")
    served.agent.waits_for("console: the certificate of before stays in use: --console-tls-cert: ")
    assert "web.pem has expired, on " in served.agent.said() and serial() == before
    for suffix in ("pem", "key"):
        shutil.copy(pki / f"again.{suffix}", served.folder / f"web.{suffix}")
    served.agent.waits_for("console: certificate and key read again")
    assert serial() != before


def test_a_slow_client_is_closed(served: Served) -> None:
    """It has sent half a form when the module began."""
    assert served.slow.recv(4096).startswith(b"HTTP/1.1 408 ")
    served.slow.close()


def test_a_client_certificate_is_required_where_configured(pki: Path, tmp_path: Path) -> None:
    options = ["--console", "127.0.0.1:0", "--console-client-ca", str(pki / "ca.pem")]
    options += ["--console-tls-cert", str(pki / "web.pem"), "--console-tls-key", str(pki / "web.key")]
    running = Agent(Nowhere(tmp_path), tmp_path / "log", *options)  # type: ignore[arg-type]
    try:
        at = serves_at(running)
        trusts = ssl.create_default_context(cafile=pki / "ca.pem")
        with httpx.Client(verify=trusts, trust_env=False) as client, pytest.raises(httpx.HTTPError):
            client.get(at)
        trusts.load_cert_chain(pki / "client.pem", pki / "client.key")
        with httpx.Client(verify=trusts, trust_env=False) as client:
            assert client.get(at).status_code == 200
            assert client.post(f"{at}/changes/preview").status_code == 405, "nobody can sign in"
        assert running.end() == 0
    finally:
        running.end(signal.SIGKILL)


def test_bad_console_options_are_refused_at_start(pki: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    append_token(tokens, new_token("alice", "change")[1])
    (tmp_path / "open").write_text(tokens.read_text())
    (tmp_path / "open").chmod(0o640)
    (tmp_path / "wrong").write_text("# tokens\nalice change secret\n")
    (tmp_path / "wrong").chmod(0o600)
    far = ["--console", "192.0.2.1:9853"]
    near = ["--console", "127.0.0.1:0"]

    def tls(cert: str, key: str) -> list[str]:
        return ["--console-tls-cert", str(pki / cert), "--console-tls-key", str(pki / key)]

    web, token = tls("web.pem", "web.key"), ["--console-tokens", str(tokens)]
    for options, words in (
        ([*far], "expected a loopback address such as 127.0.0.1:9853, or TLS (--console-tls-cert"),
        ([*far, *web], "or tokens (--console-tokens) or --console-client-ca"),
        ([*far, *token], "or TLS (--console-tls-cert, --console-tls-key)"),
        ([*near, "--console-tls-cert", str(pki / "web.pem")], "--console-tls-key both, or neither"),
        ([*near, "--console-client-ca", str(pki / "ca.pem")], "--console-client-ca needs --console-tls-cert"),
        ([*near, "--console-name", "a b"], "--console-name: found 'a b'"),
    ):
        done = run("agent", *options, "--db", "unix:/nowhere")
        said = " ".join(done.err.replace("│", "").split())
        assert (done.code, words in said) == (64, True), (options, said)
    for host, cert, key, file, words in (
        ("127.0.0.1", "expired.pem", "expired.key", None, "expired.pem has expired, on 20"),
        ("127.0.0.1", "web.pem", "server.key", None, "server.key is not the key of"),
        ("127.0.0.1", "web.pem", "nonsense.pem", None, "nonsense.pem is not a private key in PEM"),
        ("127.0.0.1", "nonsense.pem", "web.key", None, "nonsense.pem is not a certificate in PEM"),
        ("127.0.0.1", "client.pem", "locked.key", None, "locked.key has a passphrase, which nobody is there to type"),
        ("127.0.0.1", "none.pem", "web.key", None, "No such file or directory: '"),
        ("127.0.0.1", "web.pem", "web.key", "none", "No such file or directory: '"),
        ("127.0.0.1", "web.pem", "web.key", "open", "(mode 0640): chmod 600"),
        ("127.0.0.1", "web.pem", "web.key", "wrong", "wrong:2: found no SHA-256 after the role"),
        ("0.0.0.0", "server.pem", "server.key", "tokens", "0.0.0.0 is no name to answer by"),
    ):
        given = ConsoleAccess(pki / cert, pki / key, None, tmp_path / file if file else None, ())
        with pytest.raises((SwitchError, OSError)) as caught:
            given.security((host, 0), lambda _: None)
        assert words in str(caught.value) and "secret" not in str(caught.value)


def test_the_agent_works_without_a_console_until_its_files_are_right(pki: Path, tmp_path: Path) -> None:
    """Health checks matter more than the console; and it is never served with less than was asked for."""
    cert, key, tokens = (tmp_path / name for name in ("cert.pem", "key.pem", "tokens"))
    shutil.copy(pki / "expired.pem", cert)
    shutil.copy(pki / "expired.key", key)
    append_token(tokens, new_token("alice", "read")[1])
    options = ["--console", "127.0.0.1:0", "--metrics", "127.0.0.2:0", "--console-tokens", str(tokens)]
    options += ["--console-tls-cert", str(cert), "--console-tls-key", str(key)]
    running = Agent(Nowhere(tmp_path), tmp_path / "log", *options)  # type: ignore[arg-type]
    try:
        running.waits_for(f"no console yet, tried again every 5 s: --console-tls-cert: {cert} has expired")
        running.waits_for("the switch stays as it is")  # it has gone to its work, on a switch that is not there
        assert "console at" not in running.said() and "metrics at" not in running.said()
        shutil.copy(pki / "web.pem", cert)
        shutil.copy(pki / "web.key", key)
        assert serves_at(running).startswith("https://") and serves_at(running, "metrics").startswith("https://")
        assert running.end() == 0
    finally:
        running.end(signal.SIGKILL)
