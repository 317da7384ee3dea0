"""Holders of access tokens at the API and at ``/mcp``: their role, their chats, and the block of a tool."""

import json
import multiprocessing
import re
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync
from mcp import Client
from mcp_types import ErrorData

import covalt_git
from covalt_git.catalog.current_config import current_config
from covalt_git.errors import CovaltError
from covalt_git.manifests.project_config import read_config
from covalt_git.names import new_id
from covalt_git.serving import mcp_endpoint
from covalt_git.system import atomic_write
from covalt_git.trust import Consents, config_permissions
from tests.api_client import Api, answered, make_project, refused
from tests.examples import rest
from tests.issuers import tokens
from tests.issuers.guarded import call, code_of, get, guard, make_chat, tell
from tests.issuers.tokens import ARGS, AUDIENCE, ISSUER, TOOL
from tests.mcp_client import refused as refused_by_protocol
from tests.mcp_client import text
from tests.settling import until
from tests.trusting import use_config
from tests.uvicorn_server import TOKEN, served, talk_over_http

PROCESSES = 8
Cli = Callable[..., tuple[int, str]]


@pytest.fixture
def guarded(api: Api) -> Api:
    guard(api.root)
    return api


def own_record(api: Api, chat_id: str = "own") -> dict[str, Any]:
    """Return the record of the last commit of a chat."""
    store = api.root / "data/chats" / chat_id / "store.git"
    done = subprocess.run(
        ["git", "--git-dir", str(store), "log", "-1", "--format=%B"],
        capture_output=True,
        text=True,
        check=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    record: dict[str, Any] = json.loads(line)
    return record


def test_the_holder_of_a_token_calls_a_tool_and_the_record_has_who_and_not_what(
    guarded: Api,
) -> None:
    token = tokens.token(jti="the-id", secret_claim="value-of-a-claim")
    make_chat(guarded, tokens.token())
    assert answered(call(guarded, token))["result"] == "hello"

    record = own_record(guarded)
    assert record["by"] == f"{ISSUER}|ann"
    checks = ["token", "protocol", "audience", "capabilities", "blast_radius", "execution"]
    expected = {"issuer": ISSUER, "subject": "ann", "jti": "the-id", "checks": checks}
    assert record["call"]["token"] == expected
    # Nothing else of the token is in any file of the project, the index included.
    files = [file.read_bytes() for file in guarded.root.rglob("*") if file.is_file()]
    for part in (*token.split("."), "value-of-a-claim"):
        assert not any(part.encode() in content for content in files)


def test_a_tool_without_requirements_is_called_with_a_token_of_any_tool(guarded: Api) -> None:
    token = tokens.token()
    make_chat(guarded, token)
    for _ in range(2):
        answer = call(guarded, token, tool_id="guarded:plain")
        assert answered(answer)["result"] == "hello"
    assert own_record(guarded)["call"]["token"]["checks"] == ["token"]


def test_a_token_gives_its_role_and_no_other(api: Api) -> None:
    guard(api.root, roles="roles: {claim: groups, map: {callers: caller, none: nobody}}")
    make_chat(api, tokens.token(groups=["callers"]))
    assert call(api, tokens.token(groups=["x", "callers"])).status_code == 200
    assert code_of(call(api, tokens.token(groups="none"))) == (404, "unknown_tool")
    for groups in ([], "other", None, {"callers": 1}, 7, ["Callers"]):
        assert code_of(call(api, tokens.token(groups=groups))) == (403, "no_mapped_role")
    assert code_of(
        tell(api, tokens.token(groups=["callers"]), "add_grant", toolset_id="guarded")
    ) in {
        (403, "forbidden"),
        (400, "invalid_request"),
    }


def test_a_hidden_tool_answers_like_a_missing_one(api: Api) -> None:
    guard(api.root, role="nobody")
    token = tokens.token()
    make_chat(api, token)
    hidden = call(api, token).get_data(as_text=True)
    missing = call(api, token, tool_id="guarded:none").get_data(as_text=True)
    assert hidden.replace(TOOL, "X") == missing.replace("guarded:none", "X")


def test_tokens_are_for_the_api_and_neither_for_pages_nor_for_git(guarded: Api) -> None:
    token = tokens.token()
    assert get(guarded, token, "/api/list_tools").status_code == 200
    assert get(guarded, token, "/v1/tools").status_code == 200
    for path in ("/", "/chats/c1", "/toolsets", f"/?token={token}", "/api", "/v1x/"):
        assert get(guarded, token, path).status_code == 401
    with served(guarded.root) as port:
        import httpx2  # noqa: PLC0415

        url = f"http://127.0.0.1:{port}/git/c1/info/refs?service=git-upload-pack"
        assert httpx2.get(url, headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_nothing_replaces_a_required_token(guarded: Api, cli: Cli) -> None:
    answer = guarded.tell("call_tool", chat_id="c1", tool_id=TOOL, args=ARGS)
    refused(answer, 401, "missing_token")
    assert "Bearer" in answer.headers["WWW-Authenticate"]
    status, printed = cli("call", "c1", TOOL, "--arg", "text=hello")
    assert (status, "--token-file" in printed) == (1, True)


def test_a_command_and_the_python_api_take_the_file_of_a_token(
    guarded: Api, cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{tokens.token()}\n")
    status, printed = cli("call", "c1", TOOL, "--arg", "text=hello", "--token-file", str(file))
    assert status == 0, printed
    status, printed = cli("call", "c1", TOOL, "--arg", "text=hello", "--token-file", str(file))
    assert status == 1
    assert "spent" in printed
    file.write_text(tokens.token())
    with covalt_git.open_project(guarded.root) as project:
        assert project.chat("c1").call(TOOL, ARGS, token_file=file).value == "hello"
        with pytest.raises(CovaltError) as caught:
            project.chat("c1").call(TOOL, ARGS, token_file=tmp_path / "none")
    assert caught.value.code == "token_file"


def test_a_holder_has_own_chats_only(guarded: Api) -> None:
    """In no list, event, approval or call of one holder is a chat of another, or of the user of this machine."""
    ann, bob = tokens.token(), tokens.token(sub="bob")
    make_chat(guarded, ann, "of-ann")
    made = answered(call(guarded, tokens.token(), "of-ann"))
    for token, chats in ((ann, ["of-ann"]), (bob, [])):
        listed = json.loads(get(guarded, token, "/api/list_chats").get_data())
        assert [chat["id"] for chat in listed["chats"]] == chats
        assert code_of(call(guarded, token, "c1")) == (404, "unknown_chat")
    for path in (
        "/api/get_chat?chat_id=of-ann",
        "/api/list_calls?chat_id=of-ann",
        f"/api/stream/{made['id']}",
        f"/api/get_call?chat_id=of-ann&call_id={made['id']}",
    ):
        assert get(guarded, bob, path).status_code == 404, path
    # Another issuer's subject of this name is another holder.
    assert guarded.get("get_chat", chat_id="of-ann")["id"] == "of-ann"


def test_events_are_of_own_chats_only(guarded: Api) -> None:
    ann, bob = tokens.token(), tokens.token(sub="bob")
    start = get(guarded, bob, "/api/events?poll=true&after=lost").get_data(as_text=True)
    position = start.split("id: ")[-1].strip()
    make_chat(guarded, ann, "of-ann")
    call(guarded, tokens.token(), "of-ann")
    make_chat(guarded, bob, "of-bob")
    seen = get(guarded, bob, f"/api/events?poll=true&after={position}").get_data(as_text=True)
    assert "of-bob" in seen
    assert "of-ann" not in seen


# Spent tokens


def test_a_spent_token_is_refused_and_the_same_call_gets_its_answer(guarded: Api) -> None:
    token, call_id = tokens.token(), new_id()
    make_chat(guarded, tokens.token())
    first = answered(call(guarded, token, call_id=call_id))
    again = answered(call(guarded, token, call_id=call_id))
    assert (again["repeated"], again["result"], again["id"]) == (True, "hello", first["id"])
    assert code_of(call(guarded, token)) == (403, "exec_binding_invalid")
    assert code_of(call(guarded, token, call_id=new_id())) == (403, "exec_binding_invalid")
    make_chat(guarded, tokens.token(), "second")
    assert code_of(call(guarded, token, "second", call_id=call_id)) == (409, "call_id_taken")
    assert code_of(call(guarded, token, "second")) == (403, "exec_binding_invalid")
    other = tokens.token(jti=json.loads(_claims(token))["jti"], exec_act="print")
    assert code_of(call(guarded, other)) == (403, "exec_binding_invalid")
    assert echoes(guarded) == 1


def _claims(token: str) -> bytes:
    import base64  # noqa: PLC0415

    part = token.split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def echoes(api: Api, chat_id: str = "own") -> int:
    file = api.root / "data/chats" / chat_id / "workspace/echoes.txt"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_spent_token_stays_spent_after_the_index_is_rebuilt(guarded: Api, cli: Cli) -> None:
    token = tokens.token()
    make_chat(guarded, tokens.token())
    answered(call(guarded, token))
    assert cli("index", "rebuild")[0] == 0
    (guarded.root / "data/index.db").unlink()
    assert code_of(call(guarded, token)) == (403, "exec_binding_invalid")


def test_a_token_is_refused_where_it_cannot_be_noted_as_spent(guarded: Api) -> None:
    make_chat(guarded, tokens.token())
    folder = guarded.root / "data/tokens"
    folder.write_text("a file in place of the folder")
    assert code_of(call(guarded, tokens.token())) == (403, "exec_binding_invalid")
    assert echoes(guarded) == 0
    folder.unlink()
    assert call(guarded, tokens.token()).status_code == 200


def test_the_note_of_a_spent_token_is_removed_after_its_end(guarded: Api) -> None:
    make_chat(guarded, tokens.token())
    answered(call(guarded, tokens.token()))
    folder = guarded.root / "data/tokens"
    (first,) = folder.iterdir()
    first.write_bytes(re.sub(rb'"ends":\d+', b'"ends":1', first.read_bytes()))
    answered(call(guarded, tokens.token()))
    assert first not in [*folder.iterdir()]


def _replay(root: Path, token: str, index: int, barrier: Any, codes: Any) -> None:
    api = Api.of(root)
    barrier.wait(60)
    answer = call(api, token, f"chat-{index % 2}")
    codes.put(answer.status_code if answer.status_code == 200 else code_of(answer)[1])


def test_a_token_that_threads_replay_runs_the_tool_once(
    guarded: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two chats, so that no lock of a chat orders them, and both at once where the token is noted as spent."""
    for index in range(2):
        make_chat(guarded, tokens.token(), f"chat-{index}")
    token, both, create = tokens.token(), threading.Barrier(2), atomic_write.create_private

    def create_at_once(file: Path, content: bytes) -> None:
        if file.parent.name == "tokens":
            both.wait(60)
        create(file, content)

    def replay(index: int) -> str:
        answer = call(Api.of(guarded.root), token, f"chat-{index}")
        return str(answer.status_code if answer.status_code == 200 else code_of(answer)[1])

    monkeypatch.setattr(atomic_write, "create_private", create_at_once)
    with ThreadPoolExecutor(2) as threads:
        codes = sorted(threads.map(replay, range(2)))
    assert codes == ["200", "exec_binding_invalid"]
    assert echoes(guarded, "chat-0") + echoes(guarded, "chat-1") == 1


@pytest.mark.rest  # as threads replay it above
@pytest.mark.slow
def test_a_token_that_eight_processes_replay_runs_the_tool_once(guarded: Api) -> None:
    """Half of them in another chat, where no lock of a chat could order them."""
    for index in range(2):
        make_chat(guarded, tokens.token(), f"chat-{index}")
    token = tokens.token()
    # Processes that import everything themselves would take two seconds of a core each, before they begin.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier, codes = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=_replay, args=(guarded.root, token, index, barrier, codes))
        for index in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    results = [codes.get(timeout=90) for _ in processes]
    for process in processes:
        process.join(30)
    assert sorted(map(str, results)) == ["200", *["exec_binding_invalid"] * (PROCESSES - 1)]
    assert echoes(guarded, "chat-0") + echoes(guarded, "chat-1") == 1


# Approvals


def pending(api: Api, token: str) -> str:
    answer = answered(call(api, token))
    assert answer["status"] == "pending"
    return str(answer["execution_id"])


@pytest.fixture
def confirmed(api: Api) -> Api:
    """Calls of the tool need approval."""
    guard(api.root, more=", requires_confirmation: true")
    make_chat(api, tokens.token())
    return api


def test_an_approved_call_runs_once_without_its_token(confirmed: Api) -> None:
    token = tokens.token()
    execution_id = pending(confirmed, token)
    assert code_of(call(confirmed, token)) == (403, "exec_binding_invalid")
    assert confirmed.post("approve_call", execution_id=execution_id)["result"] == "hello"
    refused(confirmed.tell("approve_call", execution_id=execution_id), 409, "already_settled")
    record = own_record(confirmed)
    assert record["call"]["token"]["subject"] == "ann"
    assert code_of(call(confirmed, token)) == (403, "exec_binding_invalid")
    assert echoes(confirmed) == 1


def test_the_requester_does_not_approve_its_own_call(api: Api) -> None:
    guard(api.root, role="reviewer", more=", requires_confirmation: true")
    make_chat(api, tokens.token())
    execution_id = pending(api, tokens.token())
    answer = tell(api, tokens.token(), "approve_call", execution_id=execution_id)
    assert code_of(answer) == (403, "may_not_approve")
    assert echoes(api) == 0


def test_an_approval_ends_with_its_token(confirmed: Api) -> None:
    expires = int(datetime.now(UTC).timestamp()) + 30
    execution_id = pending(confirmed, tokens.token(exp=expires))
    approval = confirmed.get("get_approval", execution_id=execution_id)
    assert datetime.fromisoformat(approval["expires_at"]).timestamp() == expires


def test_an_approval_of_a_token_ends_with_its_issuer_and_its_tool(confirmed: Api) -> None:
    first, second = pending(confirmed, tokens.token()), pending(confirmed, tokens.token())
    manifest = confirmed.root / "toolsets/guarded/toolset.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("[read, write]", "[read, write, admin]"))
    refused(confirmed.tell("approve_call", execution_id=first), 409, "no_longer_callable")
    manifest.write_text(text)
    config = confirmed.root / "covalt.yaml"
    config.write_text(config.read_text().partition("issuers:")[0])
    refused(confirmed.tell("approve_call", execution_id=second), 409, "no_longer_callable")
    assert echoes(confirmed) == 0


# Trust


def test_issuers_of_a_clone_act_after_trust_and_end_with_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    guarded = Api.of(make_project(tmp_path / "clone"))
    guard(guarded.root)
    assert code_of(call(guarded, tokens.token())) == (401, "invalid_token")
    assert current_config(guarded.root).issuers == ()
    consents = Consents.of(guarded.root)
    consents.trust(config_permissions(read_config(guarded.root)))
    make_chat(guarded, tokens.token())
    assert call(guarded, tokens.token()).status_code == 200
    # A pull with other keys needs another consent, whatever the entry says.
    file = guarded.root / "keys/id.json"
    other = "ES256 of another"
    file.write_bytes(tokens.jwks(tokens.jwk(other)))
    assert code_of(call(guarded, tokens.token(other))) == (401, "invalid_token")
    consents.trust(config_permissions(read_config(guarded.root)))
    assert call(guarded, tokens.token(other)).status_code == 200
    config = guarded.root / "covalt.yaml"
    file.write_bytes(tokens.jwks())
    assert call(guarded, tokens.token()).status_code == 200
    config.write_text(config.read_text().replace("role: caller", "role: owner"))
    assert code_of(call(guarded, tokens.token())) == (401, "invalid_token")


def test_keys_outside_of_the_project_and_links_are_not_read(guarded: Api, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_bytes(tokens.jwks())
    file = guarded.root / "keys/id.json"
    file.unlink()
    file.symlink_to(outside)
    assert code_of(call(guarded, tokens.token())) == (503, "issuer_unavailable")


# MCP


@pytest.fixture
def port(guarded: Api) -> Any:
    with served(guarded.root) as port:
        yield port


def refusal(port: int, token: str, name: str = "guarded.echo") -> ErrorData:
    def say(client: Client) -> Awaitable[ErrorData]:
        return refused_by_protocol(client.call_tool(name, ARGS))

    return talk_over_http(port, say, token=token)


@pytest.mark.parametrize(
    ("changes", "code", "error"),
    [
        ({"aud": AUDIENCE}, -32002, "audience_mismatch"),
        rest({"caps": ["read"]}, -32002, "insufficient_capabilities"),
        rest({"blast_radius": "*"}, -32002, "blast_radius_exceeded"),
        rest({"inp_hash": "x"}, -32002, "exec_binding_invalid"),
    ],
)
def test_errors_over_mcp_have_the_codes_of_json_rpc(
    port: int, changes: dict[str, Any], code: int, error: str
) -> None:
    answer = refusal(port, tokens.token(**changes))
    assert (answer.code, answer.data["error"]) == (code, error)


def test_a_holder_calls_over_mcp_and_learns_nothing_of_missing_tools(port: int) -> None:
    async def say(client: Client) -> Any:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        return listed, await client.call_tool("guarded.echo", ARGS)

    listed, result = talk_over_http(port, say, token=tokens.token())
    assert "guarded.echo" in listed
    assert text(result).startswith("hello")
    # The token of this session is spent, and a new one of the same holder continues it.
    answer = refusal(port, tokens.token(), "guarded.none")
    assert (answer.code, answer.data["error"]) == (-32601, "unknown_tool")
    assert refusal(port, TOKEN).data["error"] == "missing_token"
    listed = talk_over_http(port, lambda client: client.list_tools(), token=TOKEN).tools
    assert "guarded.echo" not in [tool.name for tool in listed]


def test_an_invalid_token_is_refused_over_mcp_and_metadata_names_the_issuers(port: int) -> None:
    import httpx2  # noqa: PLC0415

    url = f"http://127.0.0.1:{port}"
    for token in (tokens.token(exp=1), "a.b.c"):
        answer = httpx2.post(f"{url}/mcp", headers={"Authorization": f"Bearer {token}"}, json={})
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
        assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    metadata = httpx2.get(f"{url}/.well-known/oauth-protected-resource/mcp").json()
    assert metadata["authorization_servers"] == [ISSUER]
    assert metadata["resource"] == f"{url}/mcp"


@pytest.mark.parametrize("ending", [rest("token"), "issuer"])
def test_open_sessions_end_with_the_last_token_of_their_holder_or_its_issuer(
    guarded: Api, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(mcp_endpoint, "CLEANUP_S", 0.02)
    monkeypatch.setattr(mcp_endpoint, "SKEW_S", 0)
    expires = int(time.time()) + (2 if ending == "token" else 300)
    closed: list[bool] = []

    async def say(client: Client) -> None:
        await client.list_tools()
        if ending == "issuer":
            config = guarded.root / "covalt.yaml"
            config.write_text(config.read_text().partition("issuers:")[0])
        # In a thread, as the server's loop is another one.
        await run_sync(until, lambda: len(endpoint._servers) == 1)
        closed.append(True)

    endpoints: list[Any] = []
    create = mcp_endpoint.McpEndpoint.__init__

    def note(self: Any, *args: Any, **options: Any) -> None:
        endpoints.append(self)
        create(self, *args, **options)

    monkeypatch.setattr(mcp_endpoint.McpEndpoint, "__init__", note)
    with served(guarded.root) as port:
        (endpoint,) = endpoints
        with suppress(Exception):
            talk_over_http(port, say, token=tokens.token(exp=expires))
    assert closed


def test_a_token_of_two_headers_is_none(port: int) -> None:
    import httpx2  # noqa: PLC0415

    token = tokens.token()
    headers = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
    for path in ("/mcp", "/api/list_tools"):
        answer = httpx2.request("POST", f"http://127.0.0.1:{port}{path}", headers=headers, json={})
        assert answer.status_code == 401


def test_the_holder_of_a_token_changes_no_code_also_as_an_admin(guarded: Api) -> None:
    tokens.list_issuer(guarded.root, role="owner")
    file = guarded.root / "toolsets/guarded/tools/echo.py"
    code = file.read_bytes()
    request = {"toolset_id": "guarded", "path": "tools/echo.py", "base": sha256(code).hexdigest()}

    changes: dict[str, dict[str, Any]] = {
        "update_toolset_file": {**request, "content": "x = 1\n"},
        "fix_toolset": {"toolset_id": "guarded", "dry_run": True},
    }
    for name, fields in changes.items():
        refused(tell(guarded, tokens.token(), name, **fields), 403, "forbidden")

    assert file.read_bytes() == code
    assert guarded.post("update_toolset_file", **changes["update_toolset_file"])["written"]
