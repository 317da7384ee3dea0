"""Weaknesses of other registries of tools, one test each: a check that a missing claim, another path or a failure skips."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.security import input_hash
from tests.api_client import BEARER, HOME, Api, answered
from tests.issuers import tokens
from tests.issuers.guarded import call, code_of, guard, make_chat
from tests.issuers.tokens import ARGS, TOOL
from tests.mcp_client import text
from tests.uvicorn_server import TOKEN, call_over_http, served

REPOSITORY = Path(__file__).parents[2]
ENTRY: dict[str, Any] = {
    "tool_id": "example",
    "name": "example",
    "resource_uri": "example",
    "required_capabilities": ["example"],
    "max_blast_radius": "example",
    "requires_execution": True,
    "allowed_operations": ["example"],
    "allowed_targets": ["example"],
    "protocols": ["mcp", "http"],
    "protocol_meta": {"mcp": {"tool": "guarded:plain"}},
}
"""The example of the registry's documentation, with a tool to which its calls are forwarded."""


@pytest.fixture
def guarded(api: Api) -> Api:
    guard(api.root)
    make_chat(api, tokens.token())
    return api


def without(name: str) -> str:
    """Return a token without a claim."""
    parts = tokens.parts()
    claims = json.loads(parts.claims)
    del claims[name]
    return parts._replace(claims=json.dumps(claims)).text


def test_1_a_token_without_a_blast_radius_has_none(guarded: Api) -> None:
    assert code_of(call(guarded, without("blast_radius"))) == (403, "blast_radius_exceeded")


@pytest.mark.parametrize("name", ["exec_act", "target", "inp_hash", "jti"])
def test_2_an_execution_without_a_claim_is_not_bound(guarded: Api, name: str) -> None:
    assert code_of(call(guarded, without(name))) == (403, "exec_binding_invalid")


def test_3_the_arguments_are_bound_over_http_too(guarded: Api) -> None:
    other = call(guarded, tokens.token(), args={"text": "bye"})
    assert code_of(other) == (403, "exec_binding_invalid")
    no_body = call(guarded, tokens.token(inp_hash=input_hash({})))
    assert code_of(no_body) == (403, "exec_binding_invalid")


@pytest.mark.parametrize(
    "tool_id", ["", "guarded", ":echo", "GUARDED:echo", "guarded:echo/", "guarded::echo"]
)
def test_4_no_path_and_no_spelling_leads_to_a_call_without_checks(
    guarded: Api, tool_id: str
) -> None:
    assert call(guarded, without("caps"), tool_id=tool_id).status_code in {400, 404}
    dotted = call(guarded, without("caps"), tool_id="guarded.echo")
    assert code_of(dotted) == (403, "insufficient_capabilities")
    for path in (
        "/v1/tools/guarded:echo/call",
        "/v1/mcp/call",
        "/tools/guarded:echo/call",
        "/mcp/x",
    ):
        answer = guarded.client().post(path, base_url=HOME, json=ARGS, headers=BEARER)
        assert answer.status_code in {404, 405}, path


def test_5_the_operation_is_compared(guarded: Api) -> None:
    assert code_of(call(guarded, tokens.token(exec_act="read"))) == (403, "exec_binding_invalid")


def test_6_the_hash_is_of_the_arguments_and_of_no_envelope(guarded: Api) -> None:
    assert input_hash({"b": 1, "a": [1.0, "é"]}) == input_hash({"a": [1, "é"], "b": 1})
    headers = {"Authorization": f"Bearer {tokens.token()}", "Content-Type": "application/json"}
    body = '{ "args": {"text":\n "\\u0068ello"}, "tool_id": "guarded:echo", "chat_id": "own" }'
    answer = guarded.client().post("/api/call_tool", base_url=HOME, data=body, headers=headers)
    assert answered(answer)["result"] == "hello"
    with served(guarded.root) as port:
        result = call_over_http(port, "guarded.echo", ARGS, token=tokens.token())
    assert text(result).startswith("hello")


def test_7_what_cannot_be_checked_is_refused(guarded: Api) -> None:
    config = guarded.root / "covalt.yaml"
    whole = config.read_text()
    config.write_text(whole.replace("issuers:", "isuers:"))
    answer = call(guarded, tokens.token())
    assert code_of(answer) == (503, "issuer_unavailable")
    # A client without rights learns nothing of the file.
    assert "isuers" not in answer.get_data(as_text=True)
    config.write_text(whole)
    (guarded.root / "keys/id.json").unlink()
    assert code_of(call(guarded, tokens.token())) == (503, "issuer_unavailable")


def test_8_and_9_entries_survive_the_server_and_an_update_keeps_the_default_protocol(
    guarded: Api,
) -> None:
    entry = {name: value for name, value in ENTRY.items() if name != "protocols"}
    made = guarded.client().post("/v1/tools", base_url=HOME, json=entry, headers=BEARER)
    assert made.status_code == 201
    again = Api.of(guarded.root)
    changed = entry | {"description": "changed", "protocols": []}
    answer = again.client().put("/v1/tools/example", base_url=HOME, json=changed, headers=BEARER)
    assert answer.status_code == 200
    third = Api.of(guarded.root).client()
    stored = third.get("/v1/tools/example", base_url=HOME, headers=BEARER).get_json()
    assert (stored["description"], stored["protocols"]) == ("changed", ["mcp"])
    over_http = third.get("/v1/tools?protocol=http", base_url=HOME, headers=BEARER).get_json()
    assert over_http["count"] == 0


def test_10_the_documented_codes_are_those_of_answers(guarded: Api) -> None:
    page = (REPOSITORY / "docs/how-to/issuers.md").read_text(encoding="utf-8")
    table = page.partition("| check | otherwise |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"40\d `(\w+)`|, `(\w+)` \|", table))
    codes = {code for pair in documented for code in pair if code}
    answers = {
        code_of(call(guarded, token))[1]
        for token in (
            tokens.token(exp=1),
            tokens.token(aud=tokens.AUDIENCE),
            without("caps"),
            without("blast_radius"),
            without("jti"),
        )
    }
    own = guarded.tell("call_tool", chat_id="c1", tool_id=TOOL, args=ARGS)
    answers.add(code_of(own)[1])
    deny = "rules:\n  - {pattern: guarded.echo, when: {args: {text: h*}}, effect: deny}\n"
    tokens.list_issuer(guarded.root, more=deny)
    answers.add(code_of(call(guarded, tokens.token()))[1])
    guard(guarded.root, "protocols: [mcp]")
    answers.add(code_of(call(guarded, tokens.token()))[1])
    assert codes == answers


# From the registration of the documentation's tool to a call


def test_the_tool_of_the_documentation_is_registered_and_called_with_curl(
    guarded: Api, tmp_path: Path
) -> None:
    with served(guarded.root) as port:

        def curl(method: str, path: str, token: str, body: object = None) -> tuple[int, Any]:
            file = tmp_path / "body"
            argv = ["curl", "-s", "-X", method, f"http://127.0.0.1:{port}{path}"]
            argv += ["-H", f"Authorization: Bearer {token}", "-o", str(file)]
            argv += ["-w", "%{http_code}"]
            if body is not None:
                argv += ["-H", "Content-Type: application/json", "--data", json.dumps(body)]
            done = subprocess.run(argv, capture_output=True, text=True, check=True)
            return int(done.stdout), json.loads(file.read_bytes())

        def token(**changes: Any) -> str:
            fitting = {
                "aud": [tokens.AUDIENCE, "example"],
                "caps": ["example"],
                "blast_radius": "example",
                "exec_act": "example",
                "target": "example",
            }
            return tokens.token(**(fitting | changes))

        status, entry = curl("POST", "/v1/tools", TOKEN, ENTRY)
        assert (status, entry["tool_id"]) == (201, "example")
        assert curl("POST", "/v1/tools", TOKEN, ENTRY)[1]["error"] == "tool_exists"
        assert curl("GET", "/v1/tools", token())[1]["count"] == 1
        assert curl("POST", "/v1/tools", token(), ENTRY | {"tool_id": "x"})[0] == 403
        once = {"chat_id": "own", "tool_id": "registered:example", "args": ARGS}
        assert curl("POST", "/api/call_tool", token(), once)[1]["error"] == "tool_disabled"
        grant = {"toolset_id": "registered", "kind": "tool", "name": "example"}
        status, answer = curl("POST", "/api/add_grant", TOKEN, grant)
        assert status == 200, answer

        assert curl("POST", "/api/call_tool", TOKEN, once | {"chat_id": "c1"})[0] == 401
        refusals: dict[str, dict[str, Any]] = {
            "audience_mismatch": {"aud": tokens.AUDIENCE},
            "insufficient_capabilities": {"caps": []},
            "blast_radius_exceeded": {"blast_radius": "*"},
            "exec_binding_invalid": {"target": "other"},
        }
        for code, changes in refusals.items():
            status, answer = curl("POST", "/api/call_tool", token(**changes), once)
            assert (status, answer["error"]) == (403, code)
        spent = token()
        status, answer = curl("POST", "/api/call_tool", spent, once)
        assert (status, answer["result"]) == (200, "hello")
        status, answer = curl("POST", "/api/call_tool", spent, once)
        assert (status, answer["error"]) == (403, "exec_binding_invalid")
        status, answer = curl("DELETE", "/v1/tools/example", TOKEN)
        assert (status, answer["status"]) == (200, "deregistered")
        assert curl("POST", "/api/call_tool", token(), once)[0] == 404
