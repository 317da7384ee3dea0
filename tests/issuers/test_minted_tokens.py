"""``covalt-git token mint``: a token of the user's own issuer, which fits one tool."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.issuers.local_key import key_path
from tests.api_client import Api, answered
from tests.issuers.guarded import call, code_of, guard, make_chat
from tests.issuers.tokens import ARGS, TOOL
from tests.trusting import use_config

Cli = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_config(monkeypatch, tmp_path / "config")


def list_own(cli: Cli, root: Path, role: str = "role: caller") -> None:
    """Write the user's own issuer into ``covalt.yaml``."""
    status, printed = cli("token", "jwks", "--json")
    assert status == 0
    own = json.loads(printed)
    (root / "keys/own.json").write_text(json.dumps(own["jwks"]))
    entry = f"  - {{issuer: '{own['issuer']}', audience: here, jwks_file: keys/own.json, {role}}}\n"
    config = root / "covalt.yaml"
    config.write_text(config.read_text() + entry)


def mint(cli: Cli, *args: str) -> str:
    status, printed = cli("token", "mint", TOOL, *args, "--json")
    assert status == 0, printed
    return str(json.loads(printed)["token"])


def test_a_minted_token_fits_one_call(api: Api, cli: Cli) -> None:
    guard(api.root)
    list_own(cli, api.root)
    token = mint(cli, "--args", json.dumps(ARGS), "--for", "1m")
    make_chat(api, token)
    assert code_of(call(api, token, args={"text": "other"})) == (403, "exec_binding_invalid")
    assert answered(call(api, token))["result"] == "hello"
    assert code_of(call(api, token)) == (403, "exec_binding_invalid")


def test_the_key_is_private_and_outside_of_the_project(api: Api, cli: Cli) -> None:
    guard(api.root)
    list_own(cli, api.root)
    file = key_path()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.is_relative_to(api.root)
    secret = json.loads(file.read_text())["d"].encode()
    mint(cli)
    files = [path.read_bytes() for path in api.root.rglob("*") if path.is_file()]
    assert not any(secret in content for content in files)
    file.chmod(0o644)
    assert cli("token", "mint", TOOL)[0] == 1


def test_the_own_issuer_is_listed_like_any_other(api: Api, cli: Cli) -> None:
    guard(api.root)
    status, printed = cli("token", "mint", TOOL)
    assert (status, "not listed" in printed) == (1, True)


def test_a_minted_token_has_the_role_that_the_issuer_maps(api: Api, cli: Cli) -> None:
    guard(api.root)
    list_own(cli, api.root, "roles: {claim: groups, map: {a: nobody, b: caller}}")
    token = mint(cli, "--args", json.dumps(ARGS), "--role", "caller")
    make_chat(api, token)
    assert call(api, token).status_code == 200
    hidden = mint(cli, "--args", json.dumps(ARGS), "--role", "nobody")
    assert code_of(call(api, hidden)) == (404, "unknown_tool")
    assert cli("token", "mint", TOOL, "--role", "owner")[0] == 1


@pytest.mark.parametrize(
    "args", [["--for", "2d"], ["--for", "never"], ["--args", "[]"], ["--args", "{"]]
)
def test_a_wrong_option_is_refused(api: Api, cli: Cli, args: list[str]) -> None:
    guard(api.root)
    assert cli("token", "mint", TOOL, *args)[0] == 2


@pytest.mark.parametrize("time", ["0s", "never", "2d", "5"])
def test_the_error_of_a_lifetime_names_the_option(cli: Cli, time: str) -> None:
    status, printed = cli("token", "mint", TOOL, "--for", time)

    assert status == 2
    assert f"--for {time}: write 5m, 12h or 1d, at most 1d" in printed
