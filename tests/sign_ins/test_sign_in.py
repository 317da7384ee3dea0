"""Signing in for an entry of auth: only the provider that the toolset names gets anything, and only after checks."""

import threading

import pytest

from covalt_git.access.grants import GrantNeededError
from covalt_git.catalog.catalog import BrokenToolsetError
from covalt_git.connections.login_reach import SignInFailedError
from covalt_git.errors import CovaltError
from covalt_git.operations.context import Context
from covalt_git.operations.credentials import logins
from covalt_git.project import Project
from tests.api_client import Api
from tests.calls.conftest import World
from tests.connections.signing_in import redirect_of, visit
from tests.operations_client import Operations
from tests.server.visitor import Visitor
from tests.sign_ins import accounts
from tests.sign_ins.accounts import Accounts, sign_in, stored
from tests.sign_ins.conftest import grant


@pytest.mark.requirement("toolshed-plugins.auth")
def test_a_sign_in_is_stored_for_its_user_project_and_entry(
    shop: World, provider: Accounts
) -> None:
    row = sign_in(shop.root)

    login = stored(shop.root)
    assert (row.server, row.scope, row.hosts) == ("shop/shop", "read", (provider.api,))
    assert (login.toolset_id, login.server_id) == ("shop", "auth:shop")
    (file,) = (shop.root.parent / "config").rglob("sign-ins/*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "code_challenge_method=S256" not in login.model_dump_json()
    assert any("code_verifier=" in line for line in provider.log())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("issuer", "another issuer answered: https://another.example"),
        ("error", "the provider refused it: access_denied"),
    ],
)
def test_a_wrong_answer_of_the_provider_ends_the_sign_in_before_a_token_is_requested(
    shop: World, provider: Accounts, wrong: str, why: str
) -> None:
    provider.set(wrong=wrong)
    requests = provider.log()

    with pytest.raises(SignInFailedError, match=why):
        sign_in(shop.root)

    assert not [line for line in provider.log()[len(requests) :] if "/token" in line]
    with pytest.raises(ValueError, match="not enough values"):
        stored(shop.root)


@pytest.mark.parametrize("wrong", ["state", "redirect"])
def test_a_redirect_with_another_state_or_path_is_not_accepted(
    shop: World, provider: Accounts, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from covalt_git.connections import entry_sign_in  # noqa: PLC0415 - it loads the SDK

    *others, report = entry_sign_in.SignInOptions.__new__.__defaults__ or ()
    defaults = (*others[:-1], 1.0, report)
    monkeypatch.setattr(entry_sign_in.SignInOptions.__new__, "__defaults__", defaults)
    provider.set(wrong=wrong)
    requests = provider.log()

    with pytest.raises(SignInFailedError, match="did not complete it within 1 s"):
        sign_in(shop.root)

    assert not [line for line in provider.log()[len(requests) :] if "/token" in line]


def test_an_answer_without_a_token_is_an_error(shop: World, provider: Accounts) -> None:
    provider.set(wrong="html")

    with pytest.raises(SignInFailedError, match="answered 502 without a valid token"):
        sign_in(shop.root)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("elsewhere", "names another host for its token endpoint: https://tokens.example/token"),
        ("metadata", "is of another issuer"),
    ],
)
def test_metadata_that_points_elsewhere_is_not_followed(
    shop: World, provider: Accounts, wrong: str, why: str
) -> None:
    with_issuer(shop, provider)
    provider.set(wrong=wrong)
    requests = provider.log()

    with pytest.raises(SignInFailedError, match=why):
        sign_in(shop.root)

    assert {line.split()[1] for line in provider.log()[len(requests) :]} <= {
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    }


def test_an_issuer_is_enough_to_sign_in(shop: World, provider: Accounts) -> None:
    with_issuer(shop, provider)

    sign_in(shop.root)

    assert stored(shop.root).revocation_endpoint == f"{provider.provider}/revoke"


def with_issuer(world: World, provider: Accounts) -> None:
    text = provider.manifest()
    begin, end = text.index("    authorize_url"), text.index("    scopes")
    text = f"{text[:begin]}    issuer: {provider.provider}\n{text[end:]}"
    world.write("shop/toolset.yaml", text)
    grant(world)


def test_the_secret_of_a_client_goes_to_granted_hosts_only(
    shop: World, provider: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_SECRET", accounts.SECRET)
    shop.edit(
        "shop/toolset.yaml", "client_id: app", "client_id: web\n    client_secret: ${SHOP_SECRET}"
    )
    with pytest.raises(GrantNeededError) as refused:
        sign_in(shop.root)
    requested = shop.cli("grant", "add", "shop", "--requested", "--dry-run").stdout
    grant(shop)

    sign_in(shop.root)

    assert (
        refused.value.hint
        == f"covalt-git grant add shop secret SHOP_SECRET 127.0.0.1:{provider.port}"
    )
    assert f"shop may send the secret SHOP_SECRET to 127.0.0.1:{provider.port}" in requested
    assert accounts.SECRET not in stored(shop.root).model_dump_json()


def test_an_entry_that_changed_needs_another_sign_in(shop: World) -> None:
    sign_in(shop.root)
    assert shop.call("shop:list").call.status == "success"

    shop.edit("shop/toolset.yaml", "scopes: [read]", "scopes: [read, write]")

    # The grant of the request stays: it has not changed. The token was issued for another entry.
    assert (shop.call("shop:list").call.error or "").startswith("sign_in_needed")


def test_without_a_browser_the_address_that_it_ended_at_is_pasted(
    shop: World,
) -> None:
    opened: list[str] = []
    is_shown = threading.Event()
    pasted = iter(["http://127.0.0.1:1/callback?code=x&state=y", "nonsense", ""])

    def show(line: str) -> None:
        if "/authorize?" in line:
            opened.append(line.strip())
            is_shown.set()

    def read_line() -> str:
        is_shown.wait(10)
        # The browser of another machine does not reach the redirect, and shows its address.
        return next(pasted) or redirect_of(opened[0])

    with Context(
        shop.root, lambda: Project.open(shop.root), report=show, read_line=read_line
    ) as context:
        row = logins.log_in(context, server="shop", browser=False)

    assert row.renewable


def test_a_sign_out_revokes_the_tokens(shop: World, provider: Accounts) -> None:
    sign_in(shop.root)
    token = stored(shop.root).access_token

    answer = shop.cli("auth", "logout", "shop")

    assert answer.stdout == "signed out of shop/shop\n"
    assert any(token in line for line in provider.log() if "/revoke" in line)
    assert (shop.call("shop:list").call.error or "").startswith("sign_in_needed")


def test_what_can_be_signed_in_to_is_listed_and_named_exactly(shop: World) -> None:
    before = shop.cli("auth", "list").stdout
    sign_in(shop.root)

    assert "none: covalt-git auth login shop/shop" in before
    assert "renewed automatically" in shop.cli("auth", "list").stdout
    with pytest.raises(CovaltError, match="no sign-in 'shop/shpo'"):
        sign_in(shop.root, "shop/shpo")
    assert shop.cli("auth", "login", "demo").returncode == 2


def test_nothing_is_sent_without_https_to_another_machine(shop: World, provider: Accounts) -> None:
    shop.edit(
        "shop/toolset.yaml", f"token_url: {provider.provider}", "token_url: http://tokens.example"
    )

    assert "'token_url' is not https" in shop.cli("validate").stdout
    with pytest.raises(BrokenToolsetError):
        sign_in(shop.root)


def test_the_pages_of_this_machine_are_no_provider_of_an_entry_elsewhere(
    shop: World, provider: Accounts
) -> None:
    shop.edit(
        "shop/toolset.yaml",
        f"authorize_url: {provider.provider}",
        "authorize_url: https://provider.example",
    )

    with pytest.raises(SignInFailedError, match="token_url"):
        sign_in(shop.root)
    assert visit(f"{provider.provider}/log")


def test_files_of_a_sign_in_are_outside_of_the_project(shop: World) -> None:
    sign_in(shop.root)
    token = stored(shop.root).access_token.encode()

    assert not [
        file for file in shop.root.rglob("*") if file.is_file() and token in file.read_bytes()
    ]


def test_a_missing_sign_in_is_listed_where_the_user_looks_first(shop: World) -> None:
    def needs() -> list[tuple[str, str]]:
        rows = Operations(shop.root)("list_needs")["needs"]
        return [(row["kind"], row["command"]) for row in rows if row["toolset_id"] == "shop"]

    assert needs() == [("sign_in", "covalt-git auth login shop/shop")]
    home = Visitor(Api.of(shop.root).app).open("/")
    (button,) = [link.href for link in home.links if link.text.startswith("Sign in")]
    path, _, anchor = button.partition("#")
    assert f'id="{anchor}"' in Visitor(Api.of(shop.root).app).open(path).source
    assert "shop/shop needs a sign-in" in shop.cli("status").stdout

    sign_in(shop.root)
    assert needs() == []

    # A sign-in can be used only with its grant, which is needed first.
    (shop.root / "toolsets/state/shop.yaml").unlink()
    assert {kind for kind, _ in needs()} == {"grant"}
