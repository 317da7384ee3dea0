"""Tokens that are one change away from a valid one: ``test_changed_tokens.yaml``."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from covalt_git.access.security import binding_refusal, security_refusal
from covalt_git.access.subject import NamedTool
from covalt_git.errors import CovaltError
from covalt_git.issuers import Verifier
from covalt_git.manifests.project_config import read_config
from covalt_git.models.access_token import AccessToken
from covalt_git.models.tool_properties import Security
from tests.issuers import tokens
from tests.issuers.tokens import ARGS, SECURITY, TOOL, Parts
from tests.tables import tables

Check = Callable[[str, dict[str, Any]], str]
ACCEPTED = "-"
_VALUES: dict[str, Any] = {"long": "a" * 256, "huge": "a" * 16384}


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Check:
    """Return the code of the refusal of a call with a token, or ``-``."""
    root = tmp_path_factory.mktemp("project")
    tokens.list_issuer(root)
    config, verifier = read_config(root), Verifier(root)
    tool = NamedTool(TOOL, security=SECURITY)

    def code(text: str, args: dict[str, Any]) -> str:
        refusal: CovaltError | None
        try:
            token = verifier.verify(config, text)
        except CovaltError as error:
            refusal, status = error, 401
        else:
            refusal, status = blocked(token, args), 403
        if refusal is None:
            return ACCEPTED
        assert refusal.http_status == status
        assert_says_nothing(refusal, text)
        return refusal.code

    def blocked(token: AccessToken, args: dict[str, Any]) -> CovaltError | None:
        refusal = security_refusal(tool, "http", token)
        return refusal or binding_refusal(tool, token, args)

    return code


def assert_says_nothing(error: CovaltError, text: str) -> None:
    """Check that an error repeats no part of a token and no value of a claim."""
    said = json.dumps(error.as_json())
    assert not any(part in said for part in text.split(".") if len(part) > 3)
    assert "ann" not in re.findall(r"\w+", said)
    assert "analytics" not in said


@pytest.mark.requirement("registry-create.resource_uri")
@pytest.mark.requirement("registry-create.required_capabilities")
@pytest.mark.requirement("registry-create.max_blast_radius")
@pytest.mark.requirement("registry-create.requires_execution")
@pytest.mark.requirement("registry-create.allowed_operations")
@pytest.mark.requirement("registry-create.allowed_targets")
@pytest.mark.parametrize("row", tables(__file__)["changes"], ids=lambda row: row["name"])
def test_a_token_with_one_change_is_refused_by_its_check(row: dict[str, Any], check: Check) -> None:
    assert check(tokens.token(), ARGS) == ACCEPTED
    assert check(changed(row), row.get("args", ARGS)) == row["code"]
    assert check(tokens.token(), ARGS) == ACCEPTED


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_token_of_each_algorithm_is_accepted(algorithm: str, check: Check) -> None:
    assert check(tokens.token(algorithm), ARGS) == ACCEPTED


def test_a_token_has_one_spelling(check: Check) -> None:
    """The last letter of a signature has bits that are not part of it, which could make many digests of one token."""
    text = tokens.token()
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = text[:-1] + letters[letters.index(text[-1]) ^ 1]
    assert check(other, ARGS) == "invalid_token"


def changed(row: dict[str, Any]) -> str:
    """Return a valid token with the change of a row."""
    base = tokens.parts()
    header, claims = json.loads(base.header), json.loads(base.claims)
    header |= {name: _value(value) for name, value in row.get("header", {}).items()}
    claims |= {name: _value(value) for name, value in row.get("claims", {}).items()}
    for name in row.get("without_header", ()):
        del header[name]
    for name in row.get("without", ()):
        del claims[name]
    head, body = json.dumps(header), json.dumps(claims)
    if "replace_header" in row:
        head = _replaced(row["replace_header"], head)
    if "replace" in row:
        body = _replaced(row["replace"], body)
    if row.get("hmac"):
        return with_hmac(Parts(head, body))
    text = Parts(head, body, row.get("key", "ES256")).text
    return _replaced(row["text"], text) if "text" in row else text


def with_hmac(parts: Parts) -> str:
    """Return a token whose HMAC has the public key as its secret: a verifier that trusts ``alg`` accepts it."""
    import hashlib  # noqa: PLC0415
    import hmac  # noqa: PLC0415

    head = parts.header.replace('"alg": "ES256"', '"alg": "HS256"')
    signed = f"{tokens.encoded(head.encode())}.{tokens.encoded(parts.claims.encode())}"
    mac = hmac.digest(tokens.public_pem("ES256"), signed.encode(), hashlib.sha256)
    return f"{signed}.{tokens.encoded(mac)}"


def _replaced(change: list[str], text: str) -> str:
    pattern, new = change
    replaced, count = re.subn(pattern, new if r"\1" in new else lambda _: new, text, count=1)
    assert count == 1
    return replaced


def _value(value: Any) -> Any:
    if value == "own":
        return tokens.jwk("ES256 of another")
    if isinstance(value, str) and (match := re.fullmatch(r"now([+-]\d+)", value)):
        return int(time.time()) + int(match[1])
    return _VALUES.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("most", "accepted", "refused"),
    [
        ("*", ["*", "namespace:*", "namespace:a", "any"], [None]),
        (
            "namespace:*",
            ["namespace:*", "namespace:a"],
            ["*", "cluster:a", "cluster:*", "namespace"],
        ),
        ("namespace:a", ["namespace:a"], ["*", "namespace:*", "namespace:b", "cluster:a", None]),
        ("example", ["example"], ["*", "example:*", "examples", None]),
    ],
)
def test_a_blast_radius_is_compared_by_scope_and_value(
    most: str, accepted: list[str], refused: list[str | None]
) -> None:
    tool = NamedTool(TOOL, security=Security(max_blast_radius=most))

    def code(radius: str | None) -> str:
        token = AccessToken("i", "s", "r", "d", 0, audience=(TOOL,), blast_radius=radius)
        refusal = security_refusal(tool, "mcp", token)
        return ACCEPTED if refusal is None else refusal.code

    assert {*map(code, accepted)} == {ACCEPTED}
    assert {*map(code, refused)} == {"blast_radius_exceeded"}
