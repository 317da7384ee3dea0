"""Resources, templates and prompts of MCP servers are opened only by those who may, and as the user decided."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client, MCPError

from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.gateway.offers.uri_matches import deciding_offers
from covalt_git.grants.grants import add_grant
from covalt_git.manifests.project_config import read_config
from covalt_git.sources.refresh import accept, find_source, refresh
from covalt_git.toolsets.offers import ServerOffer, offers_of
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents, config_permissions
from covalt_git.trust.own_data import adopt
from tests.examples import covering, rest
from tests.mcp_client import REPOSITORY, make_project, read, resource_uris, talk
from tests.operations_client import Operations
from tests.trusting import use_config

FIRST_ERA = REPOSITORY / "fixtures" / "servers" / "first_era.py"
SERVER = f"""\
import os, runpy, sys
from pathlib import Path

folder = Path(sys.argv[1])
for name in ("OFFERS", "TOOLS"):
    os.environ[name] = (folder / name).read_text().replace("<key>", os.environ["KEY"])
(folder / "tools.json").write_text(os.environ["TOOLS"])
os.environ["TOOLS"] = str(folder / "tools.json")
if (folder / "changed.yaml").exists():  # while the client waits for the start
    (folder / "project/covalt.yaml").write_text((folder / "changed.yaml").read_text())

class Requests:
    def __iter__(self):
        for line in sys.__stdin__:
            with (folder / "requests").open("a") as file:
                file.write(line)
            yield line

sys.stdin = Requests()
runpy.run_path({str(FIRST_ERA)!r}, run_name="__main__")
"""
ROLES = """\
  nearby: {allow: ["near.*"]}
  denied: {allow: ["near.*"], deny: ["near.note"]}
  linker: {allow: ["near.repeat", "near.links"]}
  outside: {allow: ["near.*"], deny: ["near.secrets"]}
"""
OFFERS: dict[str, Any] = {
    "resources/list": {"resources": [{"uri": "first://note", "name": "note"}]},
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "first://{+path}", "name": "any"}]
    },
    "prompts/list": {"prompts": [{"name": "greet", "arguments": [{"name": "path"}]}]},
}
ROW = {"type": "object", "properties": {"row": {"type": "object"}}}
TOOLS = [{"name": name, "inputSchema": ROW} for name in ("repeat", "links")]
PLACE = "covalt-git://servers/near/"
NOTE, NOTES = f"{PLACE}first://note", f"{PLACE}first://notes/7"


def short(name: str) -> str:
    """Return the local name of an offer without the digest of its name at the server."""
    return name.rpartition("-")[0]


def offer(
    root: Path,
    *,
    but: tuple[str, ...] = (),
    offers: dict[str, Any] = OFFERS,
    tools: list[dict[str, Any]] = TOOLS,
    key: str = "plain",
) -> list[str]:
    """List what a server offers, and accept it except for some; return the notes about it."""
    script = root.parent / "server.py"
    script.write_text(SERVER)
    # In files, because every path in a variable is looked up; the digest tells this server from an earlier one.
    lists = {"OFFERS": json.dumps(offers), "TOOLS": json.dumps(tools)}
    for name, text in lists.items():
        (root.parent / name).write_text(text)
    digest = sha256("".join(lists.values()).encode()).hexdigest()
    server = {
        "id": "near",
        "command": sys.executable,
        "args": [str(script), str(root.parent)],
        "env": {"LISTS": digest, "KEY": key},
        "requires_confirmation": False,
    }
    manifest = {"id": "near", "name": "Near", "version": "1", "mcp_servers": [server]}
    (root / "toolsets/near").mkdir(exist_ok=True)
    (root / "toolsets/near/toolset.yaml").write_text(yaml.safe_dump(manifest))
    add_grant(root, "near", "process", "near", by="me")
    notes: list[str] = []
    source = find_source(root, "near", "near")
    refresh(root, source, partial(list_tools, root=root, report=notes.append))
    listed = find_source(root, "near", "near").to_accept
    reviewed = {one.name: one.digest for one in listed if short(one.name) not in but}
    accept(root, "near", "near", reviewed)
    return notes


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield make_project(tmp_path / "project", roles=ROLES)
    CONNECTIONS.close()


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose server's offers are accepted, for tests that change neither."""
    root = make_project(tmp_path_factory.mktemp("offered") / "project", roles=ROLES)
    offer(root)
    yield root
    CONNECTIONS.close()


def rule(root: Path, *rules: str) -> None:
    config = root / "covalt.yaml"
    text = config.read_text().partition("approvals:")[0]
    config.write_text(f"{text}approvals: [{', '.join(rules)}]\n" if rules else text)


def refusal(error: MCPError) -> str:
    """Return the code of an error; that something does not exist has none."""
    return str((error.error.data or {}).get("error", "unknown"))


def opened(root: Path, uri: str, role: str | None = None) -> str:
    """Return the text of a resource, or the code of the error."""

    return talk(root, partial(text_or_code, uri=uri), role=role)


async def text_or_code(client: Client, uri: str) -> str:
    try:
        return str((await read(client, uri)).text)
    except MCPError as error:
        return refusal(error)


def said(root: Path, role: str | None = None) -> str:
    """Return the text of the prompt, or the code of the error."""

    async def say(client: Client) -> str:
        try:
            result: Any = await client.get_prompt("near.greet", {"path": "prod.env"})
            return str(result.messages[0].content.text)
        except MCPError as error:
            return refusal(error)

    return talk(root, say, role=role)


SPELLINGS = [
    *("note", "%6eote", "%256Eote", "./note", "a/../note", "NOTE", "note?x=1", "note#a"),
    # What parsers after WHATWG leave out, or read as another character.
    *(
        "note ",
        "no\tte",
        "n\rote",
        "note\n",
        "no%09te",
        "a\\..\\note",
        "u@note",
        "note:443",
        "note:",
    ),
]


def test_no_template_opens_a_resource_that_a_role_is_denied(offered: Path) -> None:
    async def say(client: Client) -> dict[str, str]:
        return {name: await text_or_code(client, f"{PLACE}first://{name}") for name in SPELLINGS}

    assert talk(offered, say, role="denied") == dict.fromkeys(SPELLINGS, "unknown")
    assert opened(offered, NOTES, role="denied") == "note 7"
    assert opened(offered, NOTE, role="nearby") == "a note, plain"


@pytest.mark.parametrize(
    ("listed", "template", "asked"),
    [
        ("http://h:80/secret", "http://h/{x}", "http://h/secret"),
        rest("file://localhost/secret", "file:///{x}", "file:///secret"),
        rest("first://a\\note", "first://{+path}", "first://a/note"),
    ],
)
def test_no_template_opens_a_denied_resource_that_is_listed_in_another_form(
    root: Path, listed: str, template: str, asked: str
) -> None:
    resources = [{"uri": listed, "name": "note"}]
    templates = [{"uriTemplate": template, "name": "any"}]
    offers = {
        "resources/list": {"resources": resources},
        "resources/templates/list": {"resourceTemplates": templates},
    }
    offer(root, offers=OFFERS | offers)

    assert opened(root, f"{PLACE}{asked}", role="denied") == "unknown"


REWRITES: list[Callable[[str], str]] = [
    lambda uri: uri,
    lambda uri: uri.replace("://", "://x/../"),
    lambda uri: re.sub("://([^/]*)/", r"://\1/../", uri),
    lambda uri: re.sub("://([^/]*)/", r"://\1/%2E%2e/", uri),
    lambda uri: re.sub("://([^/]*)/", r"://\1//", uri),
    lambda uri: re.sub("/(?=[^/]*$)", "/./", uri),
    lambda uri: re.sub("/(?=[^/]*$)", "%2F", uri),
    lambda uri: re.sub("://([^/]*)", lambda host: host[0].upper(), uri),
    lambda uri: uri.replace("://", "://user@"),
    lambda uri: uri.replace("://", ":/"),
    lambda uri: uri.replace("://", ":"),
    lambda uri: re.sub("://([^/:]*)", r"://\1:80", uri),
    lambda uri: uri.replace("h.example", "h\u3002example"),
    lambda uri: uri.replace("h.example", "h%2Eexample"),
    lambda uri: uri.replace("h.example", "h\u00ad.example"),
    lambda uri: uri.replace("127.0.0.1", "127.1"),
    lambda uri: uri.replace("127.0.0.1", "0x7f000001"),
    lambda uri: uri.replace("note", "%6eote"),
    lambda uri: uri.replace("note", "NOTE"),
    lambda uri: uri.replace("caf%C3%A9", "cafe%CC%81"),
    lambda uri: uri.replace("?id=1", "?x=1&id=1"),
    lambda uri: uri.replace("?id=1", ""),
    lambda uri: re.sub("://([^/:]*)", r"://\1:21", uri),
    lambda uri: uri if uri.startswith("file:") else uri.replace("://", ":///"),
    lambda uri: uri.replace("note", "note;x"),
    lambda uri: uri.replace("note", "note."),
    lambda uri: uri.replace("note", "note%20"),
    lambda uri: uri.replace("note", "note::$DATA"),
    lambda uri: f"{uri}/",
    lambda uri: f"{uri}#x",
    lambda uri: uri.replace("%20", "+"),
    lambda uri: f"{uri}+",
    lambda uri: f"{uri}%EF%B8%8F",
    lambda uri: uri.replace("note", "no%CD%8Fte"),
    lambda uri: re.sub("/(?=[^/]*$)", "/x{&/../", uri),
    lambda uri: re.sub("/(?=[^/]*$)", "/{x/../", f"{uri};}}"),
    lambda uri: uri.replace("://", "://{u@"),
]
"""Changes of a URI that some parser or file system undoes."""


SPELLED = [
    ("http://h.example/note", "http://h.example/note"),
    ("http://127.0.0.1/a/note", "http://127.0.0.1/a/note"),
    ("first://note", "first://note"),
    ("ftp://h.example/note", "ftp://h.example/note"),
    ("file:///a/note", "file:///a/note"),
    ("first://a/my%20note", "first://a/my%20note"),
    ("first://a/caf%C3%A9", "first://a/caf%C3%A9"),
    ("db://h.example/note?id=1", "db://h.example/note?id=1"),
    ("first://note/{name}", "first://note/some"),
    ("http://h.example/{name}/note", "http://h.example/a/note"),
    ("db://h.example/note{?id,x}", "db://h.example/note?id=1"),
    ("http://h.example:80/note/{name}", "http://h.example/note/a"),
    ("file://localhost/note/{name}", "file:///note/a"),
    ("{+any}", "first://note"),
]
"""A URI or template that a server lists, and a URI that it has."""


@pytest.fixture(scope="module")
def spelled(tmp_path_factory: pytest.TempPathFactory) -> list[ServerOffer]:
    """All of them as the offers of one server: each alone would need a start of its own."""
    root = make_project(tmp_path_factory.mktemp("spelled") / "project")
    uris = [listed for listed, _ in SPELLED]
    resources = [{"uri": uri, "name": "listed"} for uri in uris if "{" not in uri]
    templates = [{"uriTemplate": uri, "name": "listed"} for uri in uris if "{" in uri]
    offers = {
        "resources/list": {"resources": resources},
        "resources/templates/list": {"resourceTemplates": templates},
    }
    offer(root, offers=OFFERS | offers)
    CONNECTIONS.close()
    return [*offers_of(read_toolset(root, "near"))]


@pytest.mark.parametrize(("listed", "uri"), SPELLED)
def test_an_offer_decides_about_each_spelling_of_its_uris(
    spelled: list[ServerOffer], listed: str, uri: str
) -> None:
    named = [listed_offer for listed_offer in spelled if listed_offer.locked.upstream == listed]
    assert len(named) == 1

    for first, second in product(REWRITES, repeat=2):
        spelling = second(first(uri))
        assert deciding_offers(named, spelling) == named, spelling


def test_an_offer_decides_nothing_about_the_usual_uris_of_others(offered: Path) -> None:
    offers = [*offers_of(read_toolset(offered, "near"))]

    for uri in ("second://note", "first-too://note/7", "file:///a/b%20c/.env.txt"):
        assert deciding_offers(offers, uri) == []


def test_a_link_to_an_unusual_spelling_is_decided_by_all_offers(offered: Path) -> None:
    offers = [*offers_of(read_toolset(offered, "near"))]

    for uri in ("first://note ", "first://a\\note", "first://note:443", "file://localhost/x"):
        ids = {one.id for one in deciding_offers(offers, uri)}
        assert {"near:note", "near:any"} <= ids


def test_no_template_opens_a_resource_that_needs_approval_or_was_not_accepted(root: Path) -> None:
    offer(root, but=("resource_first_note",))
    assert opened(root, NOTE) == "unknown"
    assert opened(root, NOTES) == "note 7"

    offer(root)
    assert opened(root, NOTE) == "a note, plain"
    rule(root, "{pattern: near.note, require: true}")
    assert opened(root, NOTE) == "unknown"


def test_each_template_that_matches_a_uri_must_be_allowed(root: Path) -> None:
    both = json.loads(json.dumps(OFFERS))
    template = {"uriTemplate": "first://notes/{number}", "name": "secrets"}
    both["resources/templates/list"]["resourceTemplates"].append(template)
    offer(root, offers=both)

    assert opened(root, NOTES, role="nearby") == "note 7"
    for uri in (NOTES, f"{PLACE}first://x/../notes/7", f"{PLACE}first://%6eotes/7"):
        assert opened(root, uri, role="outside") == "unknown"


@pytest.mark.rest
def test_a_resource_with_exactly_the_uri_decides_alone(root: Path) -> None:
    offer(root)
    rule(root, "{pattern: near.any, require: true}")

    assert opened(root, NOTE) == "a note, plain"
    assert opened(root, NOTES) == "unknown"


def test_a_rule_about_arguments_holds_for_prompts_and_templates(root: Path) -> None:
    offer(root)
    assert said(root) == json.dumps(["greet", {"path": "prod.env"}])

    rule(root, "{pattern: 'near.**', require: true, when: {args: {path: '*.env'}}}")

    assert said(root) == "unknown"
    assert opened(root, NOTES) == "unknown"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("first://notes/{number}", "note 7"),
        rest("first://notes/{path}", "unknown"),
        rest("first://notes/{path:9}", "unknown"),
        rest("first://notes/{number*}", "unknown"),
        ("first://{a,path}/7", "unknown"),
        rest("first://notes/7{?number}", "unknown"),
        ("first://{+rest}", "unknown"),
        rest("first://notes/{path.of}", "unknown"),
    ],
)
def test_a_rule_about_arguments_holds_for_each_template_that_can_have_them(
    root: Path, template: str, text: str
) -> None:
    templates = [{"uriTemplate": template, "name": "any"}]
    offer(root, offers=OFFERS | {"resources/templates/list": {"resourceTemplates": templates}})
    rule(root, "{pattern: 'near.**', require: true, when: {args: {path: '*.env'}}}")

    assert opened(root, NOTES) == text
    assert opened(root, NOTE) == "a note, plain"


def test_a_prompt_gets_no_argument_that_no_rule_was_asked_about(root: Path) -> None:
    prompts = [{"name": "greet", "arguments": [{"name": "file"}]}]
    offer(root, offers=OFFERS | {"prompts/list": {"prompts": prompts}})
    rule(root, "{pattern: 'near.**', require: true, when: {args: {path: '*.env'}}}")

    assert said(root) == json.dumps(["greet", {}])


def test_an_override_requires_approval_of_an_offer(root: Path) -> None:
    offer(root)
    file = root / "toolsets/state/near.yaml"
    state = yaml.safe_load(file.read_text())
    requires = {"requires_confirmation": True}
    state["overrides"] = {"near:note": requires, "near:greet": requires}
    file.write_text(yaml.safe_dump(state))

    assert not read_toolset(root, "near").problems
    assert opened(root, NOTE) == "unknown"
    assert said(root) == "unknown"
    assert opened(root, NOTES) == "note 7"


def trust(root: Path) -> None:
    config = read_config(root)
    permissions = permissions_of(read_toolset(root, "near"), config)
    Consents.of(root).trust([*config_permissions(config), *permissions])


def test_a_pull_that_removes_a_rule_opens_nothing_without_a_question(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(root)
    rule(root, "{pattern: 'near.**', require: true}")
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    adopt(root)
    trust(root)
    assert opened(root, NOTE) == "unknown"

    rule(root)

    assert opened(root, NOTE) == opened(root, NOTES) == said(root) == "not_trusted"
    trust(root)
    assert opened(root, NOTE) == "a note, plain"
    assert opened(root, NOTES) == "note 7"
    assert "greet" in said(root)


def test_a_user_who_accepts_an_offer_trusts_that_it_is_read(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    adopt(root)

    offer(root)

    assert opened(root, NOTE) == "a note, plain"
    assert "greet" in said(root)


def links(root: Path, tool: str, args: dict[str, Any], role: str = "linker") -> list[str]:
    """Return what the links in the result of a tool lead to: texts, or the codes of errors."""
    found: list[str] = []

    async def say(client: Client) -> None:
        result = await client.call_tool(tool, args)
        for uri in (one.uri for one in result.content if one.type == "resource_link"):
            try:
                content = await read(client, uri)
                found.append(getattr(content, "text", "bytes"))
            except MCPError as error:
                found.append(refusal(error))

    talk(root, say, role=role)
    return found


LINK = {"uri": "first://notes/7", "name": "x"}


@pytest.mark.parametrize("row", [LINK, rest({"structured_content": {}, "content": [LINK]})])
def test_structured_content_that_an_agent_chose_is_no_link(offered: Path, row: Any) -> None:
    assert links(offered, "near.repeat", {"row": row}) == []


def test_a_link_to_a_listed_resource_is_followed_as_this_resource_is_read(root: Path) -> None:
    offer(root)
    assert links(root, "near.links", {}, "nearby")[:2] == ["a note, plain", "bytes"]
    assert links(root, "near.links", {}, "denied")[:2] == ["unknown", "bytes"]

    rule(root, "{pattern: near.note, require: true}")
    assert links(root, "near.links", {}, "nearby")[0] == "unknown"
    rule(root)
    offer(root, offers=OFFERS | {"resources/list": {"resources": []}})
    assert links(root, "near.links", {}, "denied")[0] == "a note, plain"


REQUIRED = "approvals: [{pattern: 'near.**', require: true}]\n"


@pytest.mark.parametrize(
    ("act", "ends"),
    covering(
        [partial(opened, uri=NOTE), partial(opened, uri=NOTES), said],
        [lambda text: text + REQUIRED, lambda text: text.replace('["near.*"]}', '["demo.*"]}')],
    ),
)
def test_what_waits_for_a_server_whose_right_ends_meanwhile_is_not_sent(
    root: Path, ends: Callable[[str], str], act: Callable[..., str]
) -> None:
    offer(root)
    (root.parent / "changed.yaml").write_text(ends((root / "covalt.yaml").read_text()))
    (root.parent / "requests").unlink()

    assert act(root, role="nearby") == "moved"

    requests = (root.parent / "requests").read_text()
    assert "initialize" in requests
    assert "resources/read" not in requests
    assert "prompts/get" not in requests


def test_what_a_server_lists_is_masked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "zq7Kx93LmN4pRt6Vw2Yb8Dc5"
    monkeypatch.setenv("MY_API_KEY", secret)
    offers: dict[str, Any] = {
        "resources/list": {
            "resources": [
                {"uri": "first://note", "name": "note", "description": "by <key>"},
                {"uri": "x://q?key=<key>", "name": "q"},
            ]
        },
        "resources/templates/list": {
            "resourceTemplates": [
                {"uriTemplate": "x://{a}?key=<key>", "name": "q"},
                {"uriTemplate": "y://{a}", "name": "y", "description": "<key>"},
            ]
        },
        "prompts/list": {
            "prompts": [
                {"name": "greet", "description": "<key>", "arguments": []},
                {"name": "p<key>"},
            ]
        },
    }
    tools = [
        {"name": "repeat", "description": "as <key>", "inputSchema": ROW},
        {"name": "t<key>", "inputSchema": ROW},
    ]

    notes = offer(root, offers=offers, tools=tools, key="${MY_API_KEY}")

    async def lists(client: Client) -> str:
        shown: list[Any] = [
            await client.list_tools(),
            await client.list_resources(),
            await client.list_resource_templates(),
            await client.list_prompts(),
            await client.call_tool("near.repeat", {"row": {"a": 1}}),
        ]
        assert "near.repeat" in {one.name for one in shown[0].tools}
        assert shown[4].structured_content == {"a": 1}
        assert NOTE in await resource_uris(client)
        return "".join(one.model_dump_json() for one in shown)

    lock = (root / "toolsets/locks/near.yaml").read_text()
    assert sorted(yaml.safe_load(lock)["tools"]) == ["repeat"]
    assert sorted(map(short, yaml.safe_load(lock)["offers"])) == [
        "prompt_greet",
        "resource_first_note",
        "template_y_a",
    ]
    assert "as ***" in lock
    assert [sum(f"a {kind} " in note for note in notes) for kind in KINDS] == [1, 1, 1, 1]
    assert secret not in lock + talk(root, lists) + "".join(notes)


KINDS = ("tool", "resource", "template", "prompt")
DESCRIBE = """
found = [tool["path"] for tool in tools.search({"query": "repeat", "limit": 50})["tools"]]
try:
    found.append(tools.describe.tool({"path": "near.repeat"})["path"])
except Exception as error:
    assert "near.repeat" in str(error)
found
"""


def test_descriptions_that_only_a_pull_has_accepted_are_not_listed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    cli_in: Callable[..., tuple[int, str]],
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    adopt(root)
    offer(root)
    kinds = {"greet", "repeat", "note", "any"}

    async def say(client: Client) -> set[str]:
        listed = [
            *(prompt.name for prompt in (await client.list_prompts()).prompts),
            *(tool.name for tool in (await client.list_tools()).tools),
            *(resource.name for resource in (await client.list_resources()).resources),
            *(each.name for each in (await client.list_resource_templates()).resource_templates),
        ]
        return {name.removeprefix("near.") for name in listed} & kinds

    async def called(client: Client) -> str:
        return str((await client.call_tool("near.repeat", {})).content[0])

    def described() -> bool:
        """Return whether a script finds the tool, and its description."""
        script = {"script": DESCRIBE}
        answer = Operations(root)(
            "call_tool", chat_id="c1", tool_id="workspace:run_script", args=script
        )
        assert answer["status"] == "success", answer
        return "near.repeat" in str(answer["result"]["value"])

    Operations(root)("create_chat", chat_id="c1")
    assert described()
    assert talk(root, say) == kinds
    state = root / "toolsets/state/near.yaml"
    accepted = state.read_text()
    Consents.of(root).withdraw_all()
    add_grant(root, "near", "process", "near", by="me")
    state.write_text(accepted)  # as a pull
    assert talk(root, say) == set()
    assert not described()
    assert "not_trusted" in talk(root, called)
    # A user finds the tool, to review it, and each command marks it.
    marks = {
        ("tool", "list"): "near:repeat (not trusted)",
        ("tool", "search", "repeat"): "near:repeat (not trusted)",
        ("tool", "show", "near:repeat"): "but not trusted on this machine: covalt-git trust",
        ("search", "repeat", "--kind", "tool"): "(not trusted on this machine)",
    }
    for command, mark in marks.items():
        assert mark in cli_in(root, *command)[1]
