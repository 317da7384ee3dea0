"""A call with several things wrong gets the code of the first check, in the order of the reference."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.security import input_hash
from tests.api_client import Api
from tests.examples import rest
from tests.issuers import tokens
from tests.issuers.guarded import call, code_of, guard, make_chat
from tests.issuers.tokens import ARGS, AUDIENCE, TOOL, WHOLE

PAGE = (Path(__file__).parents[2] / "docs/how-to/issuers.md").read_text(encoding="utf-8")
MAP = "roles: {claim: group, map: {calls: caller, sees nothing: nobody, is denied: reviewer}}"
RULES = "rules:\n  - {pattern: guarded.echo, roles: [reviewer], when: {args: {text: h*}}, effect: deny}\n"
CLAIMS: dict[str, dict[str, Any]] = {
    "invalid_token": {"exp": 1},
    "unknown_tool": {"group": "sees nothing"},
    "audience_mismatch": {"aud": AUDIENCE},
    "insufficient_capabilities": {"caps": ["read"]},
    "blast_radius_exceeded": {"blast_radius": "namespace:other"},
    "policy_denied": {"group": "is denied"},
    "exec_binding_invalid": {"inp_hash": input_hash({})},
}
"""A change of the claims of a valid token for each check, by its code, in the order of the checks."""
STATUS = {"invalid_token": 401, "unknown_tool": 404}


@pytest.mark.parametrize("protocol", ["permitted", rest("denied")])
def test_the_first_check_that_fails_decides(api: Api, protocol: str) -> None:
    security = WHOLE if protocol == "permitted" else WHOLE.replace("[mcp, http]", "[mcp]")
    guard(api.root, security, roles=MAP, more="")
    tokens.list_issuer(api.root, roles=MAP, more=RULES)
    make_chat(api, tokens.token(group="calls"))
    order = [*CLAIMS]
    if protocol == "denied":
        order.insert(2, "protocol_denied")
    answers = {}
    for wrong in product((False, True), repeat=len(CLAIMS)):
        codes = [code for code, is_wrong in zip(CLAIMS, wrong, strict=True) if is_wrong]
        claims: dict[str, Any] = {"group": "calls"}
        for code in reversed(
            codes
        ):  # the role that sees nothing is another one than the denied role
            claims |= CLAIMS[code]
        wrong_codes = {*codes, *(["protocol_denied"] if protocol == "denied" else [])}
        first = next((code for code in order if code in wrong_codes), None)
        if first is not None:
            answer = code_of(call(api, tokens.token(**claims)))
            if answer != (STATUS.get(first, 403), first):
                answers[tuple(codes)] = answer
    assert answers == {}
    if protocol == "permitted":
        assert call(api, tokens.token(group="calls")).status_code == 200


def test_without_a_token_the_tool_has_to_be_visible_first(api: Api) -> None:
    """The user of this machine has no token, and a hidden tool answers as an unknown tool."""
    guard(api.root, WHOLE)
    for role, code in (("nobody", (404, "unknown_tool")), ("owner", (401, "missing_token"))):
        answer = Api.of(api.root, role).tell("call_tool", chat_id="c1", tool_id=TOOL, args=ARGS)
        assert code_of(answer) == code


def test_the_reference_has_this_order() -> None:
    table = PAGE.partition("| check | otherwise |")[2].partition("\n\n")[0]
    codes = re.findall(r"40[13] (?:`missing_token`, )?`(\w+)`", table)
    order = [code for code in CLAIMS if code != "unknown_tool"]
    assert codes == [*order[:1], "protocol_denied", *order[1:]]
