"""Signing in to a server: the flow, what it leaves, who is given it, and what ends it."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from covalt_git.connections.connection import ServerCall
from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.errors import ServerRefusedError, SignInNeededError
from covalt_git.connections.oauth_login import Person, SignInFailedError, sign_in
from covalt_git.connections.pool import Connections
from covalt_git.connections.token_refresh import StoredTokens
from covalt_git.connections.token_store import (
    ClientChoice,
    SignInFile,
    SignInFileError,
    StoredLogin,
    stored_logins,
)
from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach
from covalt_git.models.tool_lock import locked_tool
from tests.connections.signing_in import Following, Guarded, guarded, visit


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A person's own folder, outside the project."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "covalt-git"


PASSWORD = "pa$$ word:1"


@pytest.fixture(scope="module")
def running() -> Iterator[Guarded]:
    with guarded(SECRET=PASSWORD) as server:
        yield server


@pytest.fixture
def server(running: Guarded) -> Guarded:
    """A server that wants to know who asks, with nothing wrong."""
    running.set()
    return running


@pytest.fixture(scope="module")
def other() -> Iterator[Guarded]:
    """Another one."""
    with guarded() as server:
        yield server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def called(connections: Connections, to: Definition, tool: str = "who") -> str:
    (given,) = (one for one in connections.tools(to) if one["name"] == tool)
    digest = locked_tool(given).digest
    result = connections.call(to, ServerCall(tool, digest, {}, 20.0))
    return str(result["content"][0]["text"])


def signed_in(to: Definition, choice: ClientChoice | None = None) -> StoredLogin:
    return sign_in(to, Following().person, choice, wait_s=20)


def altered(to: Definition, **facts: Any) -> None:
    """Change what is kept."""
    file = SignInFile.of(to.name, to.url)
    kept = file.read()
    assert kept is not None
    file.write(kept.model_copy(update=facts))


def test_a_person_signs_in_once_and_calls_just_work(
    connections: Connections, root: Path, server: Guarded
) -> None:
    before = len(server.log())  # of other tests
    defined, follows = server.defined(root), Following()
    with pytest.raises(SignInNeededError) as caught:
        connections.tools(defined)

    kept = sign_in(defined, follows.person, wait_s=20)

    assert caught.value.hint == "covalt-git auth login demo/remote"
    assert called(connections, defined) == f"{kept.client_id} may use"
    assert (kept.issuer, kept.origins[1:]) == (server.issuer, (server.issuer,))
    assert follows.origins == [server.issuer]
    assert len(follows.asked) == 1
    assert server.log()[before:] == [f"authorize {kept.client_id} {server.url} ['use']"]


def test_what_is_kept_is_its_owners_alone_and_outside_the_project(
    root: Path, own_folder: Path, server: Guarded
) -> None:
    kept = signed_in(server.defined(root))

    ((file, found),) = stored_logins(root)
    assert found == kept
    assert file.path.is_relative_to(own_folder)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert list(root.iterdir()) == []
    assert not any(secret in repr(kept) for secret in kept.secrets)
    assert len(kept.secrets) == 3


def test_what_others_may_read_is_not_used(
    connections: Connections, root: Path, server: Guarded
) -> None:
    defined = server.defined(root)
    signed_in(defined)
    SignInFile.of(defined.name, defined.url).path.chmod(0o644)

    with pytest.raises(SignInFileError, match="others may read") as caught:
        connections.tools(defined)

    assert caught.value.hint.startswith("chmod 600 ")


def test_a_token_is_sent_to_no_other_server_toolset_or_project(
    connections: Connections, root: Path, tmp_path: Path, server: Guarded, other: Guarded
) -> None:
    defined = server.defined(root)
    signed_in(defined)
    name = defined.name
    others = [
        replace(defined, name=replace(name, server_id="other")),
        replace(defined, name=replace(name, toolset_id="other")),
        replace(defined, name=replace(name, root=tmp_path)),
        other.defined(root),
    ]
    for one in others:
        with pytest.raises(SignInNeededError):
            connections.tools(one)
    copied = SignInFile.of(name, other.url)
    copied.path.write_bytes(SignInFile.of(name, defined.url).path.read_bytes())
    copied.path.chmod(0o600)
    with pytest.raises(SignInFileError, match="of another server"):
        connections.tools(other.defined(root))


def test_a_header_that_says_who_asks_is_not_replaced(
    connections: Connections, root: Path, server: Guarded
) -> None:
    defined = replace(server.defined(root), headers={"authorization": "Bearer wrong"})
    signed_in(server.defined(root))

    with pytest.raises(SignInNeededError) as caught:
        connections.tools(defined)

    assert caught.value.hint == "covalt-git secret list"


def test_a_token_is_renewed_before_it_ends(
    connections: Connections, root: Path, server: Guarded
) -> None:
    server.set(expires=20)
    defined = server.defined(root)
    kept = signed_in(defined)

    assert called(connections, defined) == f"{kept.client_id} may use"

    now = SignInFile.of(defined.name, defined.url).read()
    assert now is not None
    assert not {now.access_token, now.refresh_token} & {kept.access_token, kept.refresh_token}
    assert now.expires_at is not None
    assert now.expires_at > time.time()
    assert f"refresh {kept.client_id}" in server.log()


def test_a_token_that_is_refused_is_renewed_once_for_all(
    connections: Connections, root: Path, server: Guarded
) -> None:
    defined = server.defined(root)
    kept = signed_in(defined)
    assert called(connections, defined)

    server.end("access")

    assert called(connections, defined) == f"{kept.client_id} may use"
    others = Connections()
    assert called(others, defined) == f"{kept.client_id} may use"
    others.close()
    assert server.log().count(f"refresh {kept.client_id}") == 1


def test_who_was_signed_out_elsewhere_is_told_to_sign_in(
    connections: Connections, root: Path, server: Guarded
) -> None:
    defined = server.defined(root)
    signed_in(defined)
    assert called(connections, defined)

    server.end("access")
    server.end("refresh")

    with pytest.raises(SignInNeededError, match="gives no more tokens for that sign-in"):
        called(connections, defined)
    signed_in(defined)
    assert called(connections, defined)


def test_an_authorization_server_that_is_gone_is_told(
    connections: Connections, root: Path, server: Guarded
) -> None:
    defined = server.defined(root)
    signed_in(defined)
    altered(defined, token_endpoint="http://127.0.0.1:1/token", origins=("http://127.0.0.1:1",))
    server.end("access")

    with pytest.raises(SignInNeededError, match="cannot be reached: connection refused"):
        connections.tools(defined)


def test_a_refresh_token_goes_only_to_whom_signing_in_led(
    connections: Connections, root: Path, server: Guarded, other: Guarded
) -> None:
    defined = server.defined(root)
    signed_in(defined)
    altered(defined, token_endpoint=f"{other.issuer}/token")
    server.end("access")

    with pytest.raises(SignInNeededError, match="was not part of signing in"):
        connections.tools(defined)
    assert other.log() == []


def test_a_tool_that_needs_more_is_signed_in_for_again_with_what_was_there(
    connections: Connections, root: Path, server: Guarded
) -> None:
    defined = server.defined(root)
    signed_in(defined)

    with pytest.raises(SignInNeededError, match="does not allow enough"):
        called(connections, defined, "write")
    assert called(connections, defined, "who")
    kept = signed_in(defined)

    assert called(connections, defined, "write") == f"{kept.client_id} may use write"
    assert kept.challenge is None


def test_a_client_that_was_registered_beforehand_proves_who_it_is(
    connections: Connections, root: Path, monkeypatch: pytest.MonkeyPatch, server: Guarded
) -> None:
    monkeypatch.setenv("OUR_PASSWORD", PASSWORD)
    server.set(expires=20)
    defined = server.defined(root)
    kept = signed_in(defined, ClientChoice(client_id="known", secret_name="OUR_PASSWORD"))

    assert called(connections, defined) == "known may use"
    assert kept.client_secret is None
    assert "pa$$" not in SignInFile.of(defined.name, defined.url).path.read_text()
    assert "refresh known" in server.log()
    monkeypatch.delenv("OUR_PASSWORD")
    with pytest.raises(CovaltError, match="'OUR_PASSWORD' is not set"):
        signed_in(defined)


def test_a_secret_is_in_no_error(connections: Connections, root: Path, server: Guarded) -> None:
    defined = server.defined(root)
    kept = signed_in(defined)

    with pytest.raises(ServerRefusedError, match=r"I know \*\*\*") as caught:
        called(connections, defined, "leak")

    assert not any(secret in str(caught.value) for secret in kept.secrets)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("issuer", "issuer mismatch"),
        ("resource", "does not match expected"),
        ("pkce", "cannot do PKCE"),
        ("iss", "iss mismatch"),
        ("plain", "token_endpoint is http://tokens.example, which is not https"),
        ("large", "more than 256 KiB"),
    ],
)
def test_a_sign_in_that_is_not_what_it_should_be_leaves_nothing(
    root: Path, own_folder: Path, wrong: str, why: str, server: Guarded
) -> None:
    server.set(wrong=wrong)
    defined, follows = server.defined(root), Following()

    with pytest.raises(CovaltError, match=why):
        sign_in(defined, follows.person, wait_s=20)

    assert list(own_folder.rglob("*.json")) == []
    assert bool(follows.asked) == (wrong == "iss")


def test_no_token_is_asked_for_where_the_network_could_read_it(root: Path) -> None:
    there = Definition(
        Name(root, "demo", "remote"),
        "streamable-http",
        url="http://server.example/mcp",
        reach=Reach.of("http://server.example"),
    )

    with pytest.raises(SignInFailedError, match=r"http://server\.example, which is not https"):
        signed_in(there)


def test_a_token_is_renewed_once_by_many_processes(root: Path, server: Guarded) -> None:
    server.set(expires=20)
    defined = server.defined(root)
    kept = signed_in(defined)
    server.set()
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from covalt_git.connections.definition import Definition, Name\n"
        "from covalt_git.connections.token_refresh import StoredTokens\n"
        "name = Name(Path(sys.argv[1]), 'demo', 'remote')\n"
        "tokens = StoredTokens(Definition(name, 'streamable-http', url=sys.argv[2]))\n"
        "print(asyncio.run(tokens.current()))\n"
    )
    words = [sys.executable, "-c", program, str(root), defined.url]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(4)]

    given = {process.communicate()[0].strip() for process in processes}

    now = SignInFile.of(defined.name, defined.url).read()
    assert now is not None
    assert given == {now.access_token}
    assert server.log().count(f"refresh {kept.client_id}") == 1


def test_a_renewal_that_nobody_waits_for_any_more_is_kept(root: Path, server: Guarded) -> None:
    defined = server.defined(root)
    kept = signed_in(defined)
    file = SignInFile.of(defined.name, defined.url)

    async def hasty() -> None:
        tokens = StoredTokens(defined)
        waiting = asyncio.create_task(tokens.renewed(kept.access_token))
        await asyncio.sleep(0)
        waiting.cancel()
        for _ in range(500):
            await asyncio.sleep(0.01)
            now = file.read()
            assert now is not None
            if now.access_token != kept.access_token:
                return
        pytest.fail("it was not kept")

    asyncio.run(hasty())


def test_who_does_not_sign_in_is_not_waited_for_for_ever(root: Path, server: Guarded) -> None:
    def nowhere(_: Any) -> None:
        pass

    with pytest.raises(SignInFailedError, match=r"not done within 0\.5 s"):
        sign_in(server.defined(root), Person(nowhere, nowhere, nowhere), wait_s=0.5)


def test_a_person_who_says_no_is_told_so(root: Path, server: Guarded) -> None:
    def no(address: str) -> None:
        fields = dict(parse_qsl(urlsplit(address).query))
        said = {
            "error": "access_denied",
            "error_description": "not\x1b[31m now",
            "state": fields["state"],
        }
        visit(f"{fields['redirect_uri']}?{urlencode(said)}")

    with pytest.raises(SignInFailedError) as caught:
        sign_in(server.defined(root), replace(Following().person, opens=no), wait_s=20)

    assert caught.value.message == (
        "nobody is signed in to demo/remote: the authorization server said no: access_denied not [31m now"
    )
