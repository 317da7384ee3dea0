"""Each kind of tool that uses a sign-in, on each face: it needs the sign-in with its command, and then has it."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from mcp import Client

from covalt_git.calls.engine import CallRequest
from tests import command
from tests.api_client import Api
from tests.calls.conftest import World, make_world
from tests.examples import first_of
from tests.mcp_client import talk
from tests.runtime.in_sandbox import needs_full
from tests.server.visitor import Visitor
from tests.sign_ins.accounts import CODE, Accounts, sign_in, stored
from tests.sign_ins.conftest import Shop, grant
from tests.trusting import use_config

KINDS = {
    "http": "shop:list",
    "python": "shop:create",
    "server": "remote:items",
    "document": "things:items.list",
}
NEEDED = "the call needs a sign-in to shop/shop"
HINT = "covalt-git auth login shop/shop"


@pytest.fixture(scope="module")
def worlds(
    tmp_path_factory: pytest.TempPathFactory, provider: Accounts
) -> Iterator[tuple[World, World]]:
    """Two projects with all kinds: of a user without a sign-in, and of one who has signed in."""
    needs_full()
    with pytest.MonkeyPatch.context() as patch:
        use_config(patch, tmp_path_factory.mktemp("config"))
        made = [make(tmp_path_factory.mktemp(name) / "project", provider) for name in "ab"]
        sign_in(made[1].root, "shop/shop")
        yield made[0], made[1]


def make(root: Any, provider: Accounts) -> World:
    world = Shop(make_world(root).root)
    server = f'{{id: remote, url: "{provider.api}/mcp", headers: {{Authorization: "Bearer ${{auth:shop}}"}}, requires_confirmation: false}}'
    source = "{id: things, type: openapi, spec: specs/items.yaml, auth: {use: shop}}"
    text = provider.manifest().replace(
        "tools:", f"mcp_servers: [{server}]\nsources: [{source}]\ntools:"
    )
    world.write("shop/toolset.yaml", text)
    code = CODE.replace(
        "def create(name: str, url: str)",
        f'def create(name: str = "x", url: str = "{provider.api}")',
    )
    world.write("shop/tools/items.py", code)
    document = (
        f'openapi: 3.0.3\ninfo: {{title: I, version: "1"}}\nservers: [{{url: "{provider.api}"}}]\n'
    )
    document += (
        'paths: {/items: {get: {operationId: list_items, responses: {"200": {description: ok}}}}}\n'
    )
    world.write("shop/specs/items.yaml", document)
    world.cli("source", "refresh", "shop/things", "--accept", "--no-terminal", "test")
    grant(world)
    # The tools of a server are listed with a token only.
    sign_in(world.root, "shop/shop")
    listed = world.cli("source", "refresh", "shop/remote", "--accept", "--no-terminal", "test")
    assert listed.returncode == 0, listed.stderr
    world.cli("auth", "logout", "shop/shop")
    world.cli("tool", "override", "remote:items", "--no-confirm", "--no-terminal", "test")
    grant(world)
    return world


def by_command(world: World, tool: str) -> str:
    answer = command.run("-C", str(world.root), "call", "c1", tool)
    return answer.stdout + answer.stderr


def by_page(world: World, tool: str) -> str:
    visitor = Visitor(Api.of(world.root).app)
    page = visitor.open(f"/tools/{tool}?chat=c1")
    return visitor.send(page.form(f"/tools/{tool}")).text


def by_mcp(world: World, tool: str) -> str:
    async def say(client: Client) -> Any:
        return await client.call_tool(tool.replace(":", "."), {})

    return str(talk(world.root, say, chat="c1"))


def by_script(world: World, tool: str) -> str:
    file = world.root / "call.py"
    path = tool.replace(":", ".")
    file.write_text(f"try:\n    r = tools.{path}()\nexcept Exception as e:\n    r = str(e)\nr")
    script = ("script", "run", str(file), "--chat", "c1", "--json")
    return command.run("-C", str(world.root), *script).stdout


@pytest.mark.parametrize(
    ("kind", "face"), first_of(product(KINDS, [by_page, by_mcp, by_command, by_script]), (0,))
)
def test_a_tool_of_each_kind_needs_the_sign_in_and_then_has_it(
    worlds: tuple[World, World], kind: str, face: Any
) -> None:
    without, signed_in = worlds

    needed, called = face(without, KINDS[kind]), face(signed_in, KINDS[kind])

    token = stored(signed_in.root).access_token
    assert NEEDED in needed.replace("The call", "the call")
    assert face is by_script or HINT in needed
    assert NEEDED not in called
    assert "second" in called or "***" in called, called
    assert token not in called


def test_the_calls_of_all_kinds_are_recorded_without_the_token(
    worlds: tuple[World, World],
) -> None:
    _, world = worlds
    login = stored(world.root)
    with world.project().chats.open("c1") as chat:
        for tool in KINDS.values():
            outcome = world.project().engine().call(chat, CallRequest(tool, {}, None, None))
            assert outcome.call.status == "success", outcome.call.error
    files = [file for file in world.root.rglob("*") if file.is_file()]
    assert len(files) > 50
    for secret in login.secrets:
        assert not [file for file in files if secret.encode() in file.read_bytes()]
        assert secret not in world.git("log", "-p", "--all")
