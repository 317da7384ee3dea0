"""Signing in to a server: the flow, the stored login, which servers get its token, and its end."""

import asyncio
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.errors import ServerRefusedError
from covalt_git.connections.login_reach import SignInFailedError
from covalt_git.connections.oauth_login import sign_in
from covalt_git.connections.pool import Connections
from covalt_git.connections.token_refresh import StoredTokens
from covalt_git.connections.token_store import (
    ClientChoice,
    SignInFile,
    SignInFileError,
    SignInNeededError,
    StoredLogin,
    stored_logins,
)
from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach
from tests.connections.conftest import call_tool, text
from tests.connections.signing_in import Following, Guarded, guarded, visit
from tests.examples import covering

pytestmark = pytest.mark.usefixtures("config_folder")

PASSWORD = "pa$$ word:1"


@pytest.fixture(scope="module")
def running() -> Iterator[Guarded]:
    with guarded(SECRET=PASSWORD) as server:
        yield server


@pytest.fixture
def server(running: Guarded) -> Guarded:
    """A server that requires a login, with nothing wrong."""
    running.set()
    return running


@pytest.fixture(scope="module")
def other() -> Iterator[Guarded]:
    with guarded() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def defined(server: Guarded, project: Path) -> Definition:
    """The definition of the server in a project without a login."""
    return server.defined(project)


def use(connections: Connections, to: Definition, tool: str = "who") -> str:
    return text(call_tool(connections, to, tool))


def log_in(to: Definition, choice: ClientChoice | None = None) -> StoredLogin:
    return sign_in(to, Following().person, choice, wait_s=20)


def file_of(to: Definition) -> SignInFile:
    return SignInFile.of(to.name, to.url)


def stored(to: Definition) -> StoredLogin:
    login = file_of(to).read()
    assert login is not None
    return login


def test_a_user_signs_in_once_and_calls_work(
    connections: Connections, defined: Definition, server: Guarded
) -> None:
    before = len(server.log())
    user = Following()
    with pytest.raises(SignInNeededError) as raised:
        connections.tools(defined)

    login = sign_in(defined, user.person, wait_s=20)

    assert raised.value.hint == "covalt-git auth login demo/remote"
    assert use(connections, defined) == f"{login.client_id} may use"
    assert (login.issuer, login.origins[1:]) == (server.issuer, (server.issuer,))
    assert user.origins == [server.issuer]
    assert len(user.asked) == 1
    assert server.log()[before:] == [f"authorize {login.client_id} {server.url} ['use']"]


def test_a_login_is_stored_outside_the_project_for_its_owner_alone(
    connections: Connections, defined: Definition, project: Path, config_folder: Path
) -> None:
    login = log_in(defined)

    ((file, found),) = stored_logins(project)
    assert found == login
    assert file.path.is_relative_to(config_folder)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert [file.name for file in project.iterdir()] == ["data"]
    assert len(login.secrets) == 3
    assert not any(secret in repr(login) for secret in login.secrets)

    file.path.chmod(0o644)
    with pytest.raises(SignInFileError) as raised:
        connections.tools(defined)
    assert raised.value.hint.startswith("chmod 600 ")


def test_a_token_is_sent_to_no_other_server_toolset_or_project(
    connections: Connections, defined: Definition, tmp_path: Path, project: Path, other: Guarded
) -> None:
    log_in(defined)
    name = defined.name
    for one in (
        replace(defined, name=name._replace(server_id="other")),
        replace(defined, name=name._replace(toolset_id="other")),
        replace(defined, name=name._replace(root=tmp_path)),
        other.defined(project),
    ):
        with pytest.raises(SignInNeededError):
            connections.tools(one)
    copied = SignInFile.of(name, other.url)
    copied.path.write_bytes(file_of(defined).path.read_bytes())
    copied.path.chmod(0o600)
    with pytest.raises(SignInFileError, match="to another server"):
        connections.tools(other.defined(project))


# Refreshing


def test_a_token_is_refreshed_before_it_expires_once_for_all_its_users(
    connections: Connections, defined: Definition, server: Guarded
) -> None:
    server.set(expires=20)
    login = log_in(defined)
    server.set()

    async def both() -> list[str]:
        return [
            *await asyncio.gather(
                *(
                    StoredTokens(defined.name, defined.url, defined.reach).current()
                    for _ in range(2)
                )
            )
        ]

    tokens = {*asyncio.run(both())}

    now = stored(defined)
    assert tokens == {now.access_token}
    assert not {now.access_token, now.refresh_token} & {login.access_token, login.refresh_token}
    assert now.expires_at is not None
    assert now.expires_at > time.time()
    assert use(connections, defined) == f"{login.client_id} may use"
    assert server.log().count(f"refresh {login.client_id}") == 1


def test_a_refused_token_is_refreshed_once_for_all_connections(
    connections: Connections, defined: Definition, server: Guarded
) -> None:
    login = log_in(defined)
    assert use(connections, defined)

    server.end("access")

    assert use(connections, defined) == f"{login.client_id} may use"
    others = Connections()
    assert use(others, defined) == f"{login.client_id} may use"
    others.close()
    assert server.log().count(f"refresh {login.client_id}") == 1


def test_a_refreshed_token_is_stored_although_its_caller_has_left(defined: Definition) -> None:
    login = log_in(defined)

    async def leave() -> None:
        waiting = asyncio.create_task(
            StoredTokens(defined.name, defined.url, defined.reach).refresh(login.access_token)
        )
        await asyncio.sleep(0)
        waiting.cancel()
        async with asyncio.timeout(10):
            while stored(defined).access_token == login.access_token:  # noqa: ASYNC110 - a file
                await asyncio.sleep(0.01)

    asyncio.run(leave())


def test_a_login_that_was_ended_elsewhere_has_to_be_made_again(
    connections: Connections, defined: Definition, server: Guarded
) -> None:
    log_in(defined)
    assert use(connections, defined)

    server.end("access")
    server.end("refresh")

    with pytest.raises(SignInNeededError, match="refresh token"):
        use(connections, defined)
    log_in(defined)
    assert use(connections, defined)


@pytest.mark.parametrize("gone", [True, False])
def test_a_refresh_token_is_sent_to_the_servers_of_its_login_alone(
    connections: Connections, defined: Definition, server: Guarded, other: Guarded, *, gone: bool
) -> None:
    login = log_in(defined)
    changes: dict[str, Any] = {"token_endpoint": f"{other.issuer}/token"}
    if gone:
        changes = {"token_endpoint": "http://127.0.0.1:1/token", "origins": ("http://127.0.0.1:1",)}
    file_of(defined).write(login.model_copy(update=changes))
    server.end("access")

    why = "connection refused" if gone else "was not part of the login"
    with pytest.raises(SignInNeededError, match=why):
        connections.tools(defined)
    assert other.log() == []


# Clients and scopes


def test_a_tool_that_needs_another_scope_requires_a_new_login(
    connections: Connections, defined: Definition
) -> None:
    log_in(defined)

    with pytest.raises(SignInNeededError, match="insufficient scopes"):
        use(connections, defined, "write")
    assert use(connections, defined)
    login = log_in(defined)

    assert use(connections, defined, "write") == f"{login.client_id} may use write"
    assert login.challenge is None


def test_a_registered_client_proves_itself_by_a_secret_that_is_not_stored(
    connections: Connections,
    defined: Definition,
    monkeypatch: pytest.MonkeyPatch,
    server: Guarded,
) -> None:
    monkeypatch.setenv("OUR_PASSWORD", PASSWORD)
    server.set(expires=20)
    login = log_in(defined, ClientChoice(client_id="known", secret_name="OUR_PASSWORD"))

    assert use(connections, defined) == "known may use"
    assert login.client_secret is None
    assert "pa$$" not in file_of(defined).path.read_text()
    assert "refresh known" in server.log()
    monkeypatch.delenv("OUR_PASSWORD")
    with pytest.raises(CovaltError, match="'OUR_PASSWORD' is not set"):
        log_in(defined)


def test_the_secret_of_a_client_never_goes_to_another_authorization_server(
    defined: Definition, monkeypatch: pytest.MonkeyPatch, other: Guarded
) -> None:
    monkeypatch.setenv("OUR_PASSWORD", PASSWORD)
    login = log_in(defined, ClientChoice(client_id="known", secret_name="OUR_PASSWORD"))
    # As if the server had named the other authorization server until now.
    file_of(defined).write(login.model_copy(update={"issuer": other.issuer}))
    earlier = stored(defined)

    with pytest.raises(SignInFailedError, match="'known' is not registered there") as raised:
        log_in(defined)

    assert raised.value.hint.endswith("covalt-git auth login demo/remote --client-id ID")
    assert stored(defined) == earlier


@pytest.mark.parametrize(("status", "again"), covering([200, 404, 429, 503], [False, True]))
def test_a_login_ends_if_the_metadata_of_the_authorization_server_cannot_be_read(
    defined: Definition,
    monkeypatch: pytest.MonkeyPatch,
    server: Guarded,
    status: int,
    *,
    again: bool,
) -> None:
    monkeypatch.setenv("OUR_PASSWORD", PASSWORD)
    choice = ClientChoice(client_id="known", secret_name="OUR_PASSWORD")
    earlier = log_in(defined, choice) if again else None
    server.set(wrong=str(status))
    user = Following()

    with pytest.raises(SignInFailedError, match="metadata of the authorization server"):
        sign_in(defined, user.person, choice, wait_s=20)

    assert user.asked == []
    assert file_of(defined).read() == earlier


def test_tokens_are_masked_in_errors_of_the_server(
    connections: Connections, defined: Definition
) -> None:
    login = log_in(defined)

    with pytest.raises(ServerRefusedError, match=r"I know \*\*\*") as raised:
        use(connections, defined, "leak")

    assert not any(secret in str(raised.value) for secret in login.secrets)


# Logins that fail


def test_a_callback_of_another_issuer_stores_nothing(
    defined: Definition, config_folder: Path, server: Guarded
) -> None:
    """``test_hostile_oauth_metadata`` has what is found before the user is asked."""
    server.set(wrong="iss")
    user = Following()

    with pytest.raises(CovaltError, match="iss mismatch"):
        sign_in(defined, user.person, wait_s=20)

    assert list(config_folder.glob("sign-ins/*.json")) == []
    assert len(user.asked) == 1


def test_a_token_is_not_requested_without_https(project: Path) -> None:
    origin = "http://server.example"
    name, reach = Name(project, "demo", "remote"), Reach.of(origin)

    with pytest.raises(SignInFailedError, match="which is not https"):
        log_in(Definition(name, "streamable-http", url=f"{origin}/mcp", reach=reach))


def test_a_login_that_the_user_does_not_finish_times_out(defined: Definition) -> None:
    user = Following().person._replace(open_browser=lambda _: None)

    with pytest.raises(SignInFailedError, match=r"within 0\.2 s"):
        sign_in(defined, user, wait_s=0.2)


def test_a_login_that_the_user_denies_fails_with_printable_words(defined: Definition) -> None:
    def deny(url: str) -> None:
        fields = dict(parse_qsl(urlsplit(url).query))
        answer = {"error": "access_denied", "error_description": "not\x1b[31m now"}
        visit(f"{fields['redirect_uri']}?{urlencode(answer | {'state': fields['state']})}")

    with pytest.raises(SignInFailedError) as raised:
        sign_in(defined, Following().person._replace(open_browser=deny), wait_s=20)

    assert raised.value.message.endswith("access_denied not [31m now")
