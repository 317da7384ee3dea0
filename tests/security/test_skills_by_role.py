"""A skill that a role may not use does not exist for any request, also after a pull or while its toolset is disabled."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import mcp_types as types
import pytest
import yaml
from mcp import Client, MCPError

from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.gateway.offers.uri_matches import is_skill_uri
from covalt_git.grants.grants import add_grant
from covalt_git.sources.refresh import find_source, refresh
from covalt_git.trust.own_data import adopt
from tests.command import run_here as run
from tests.examples import one_in
from tests.mcp_client import make_project, read, resource_uris, talk
from tests.skill_requests import get_skill, list_skills, read_directory
from tests.taking_servers import add_skills_server, take
from tests.trusting import use_config

OWN, OWN_FILE = (
    f"skill://handbook/review-code/{file}" for file in ("SKILL.md", "references/rules.md")
)
FAR, FAR_FILE = (f"skill://near/pdf/{file}" for file in ("SKILL.md", "more.md"))
FAR_UPSTREAM = "skill://pdf/SKILL.md"
DOORS = ("resource", "link")
ROLES = """\
  own: {allow: ["handbook.skill.*", "handbook.skill-files.*"]}
  part: {allow: ["handbook.skill.*"]}
  near: {allow: ["near.*"]}
  denied: {allow: ["**"], deny: ["near.pdf", "handbook.skill-files.*"]}
  other: {allow: ["demo.read"]}
"""
SKILLS = {
    "owner": {OWN, FAR},
    "own": {OWN},
    "near": {FAR},
    "part": set[str](),
    "denied": set[str](),
    "other": set[str](),
}
AS_RESOURCES = {"part": {OWN}, "denied": {OWN}}
"""A ``SKILL.md`` that a role may read as a resource, although it may not read the other files of the skill."""


@pytest.fixture
def served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    (folder / "pdf").mkdir(parents=True)
    (folder / "pdf/SKILL.md").write_text("---\nname: pdf\ndescription: Fill forms.\n---\n")
    (folder / "pdf/more.md").write_text("more")
    return folder


@pytest.fixture
def root(tmp_path: Path, served: Path) -> Iterator[Path]:
    root = make_project(tmp_path / "project", "handbook", roles=ROLES)
    add_skills_server(root, served, requires_confirmation=False)
    yield root
    CONNECTIONS.close()


def seen(root: Path, role: str) -> dict[str, set[str]]:
    """Return the skills that each request shows to a role, by their URIs."""

    async def say(client: Client) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {
            "list": {entry["uri"] for entry in await list_skills(client)},
            "resources": {*await resource_uris(client)} & {OWN, FAR},
        }
        requests: dict[str, Callable[[str], Awaitable[object]]] = {
            "get": lambda uri: get_skill(client, uri),
            "directory": lambda uri: read_directory(client, uri.removesuffix("/SKILL.md")),
            "read": lambda uri: read(client, uri),
            "file": lambda uri: read(client, {OWN: OWN_FILE, FAR: FAR_FILE}[uri]),
        }
        refusals = set[tuple[object, ...]]()
        for name, request in requests.items():
            found[name] = set()
            for uri in (OWN, FAR):
                try:
                    await request(uri)
                except MCPError as error:
                    # The URI is the one that the client sent.
                    refusals.add((error.error.code, *{*(error.error.data or {})} - {"uri"}))
                else:
                    found[name].add(uri)
        assert refusals <= {(-32602,)}
        return found

    return talk(root, say, role=role)


@pytest.mark.parametrize("role", one_in(2, SKILLS))
def test_each_request_shows_the_same_skills(root: Path, role: str) -> None:
    take(root, "near", "near")
    expected = SKILLS[role]
    as_resources = expected | AS_RESOURCES.get(role, set())
    assert seen(root, role) == {
        **dict.fromkeys(("list", "get", "directory", "file"), expected),
        **dict.fromkeys(("resources", "read"), as_resources),
    }


def digest(text: str) -> str:
    """Return the digest of a text as a server lists it."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def other_doors(root: Path, role: str, upstream: str = FAR_UPSTREAM) -> dict[str, str]:
    """Return what a role reads of the skill's ``SKILL.md`` as a resource or by a template, and by a link of a tool."""

    async def text(client: Client, uri: str) -> str:
        try:
            return str((await read(client, uri)).text)
        except MCPError as error:
            return "unknown" if error.error.code == -32602 else str(error.error.data["error"])

    async def say(client: Client) -> dict[str, str]:
        sent = (await client.call_tool("near.find", {})).content
        (link,) = (block for block in sent if isinstance(block, types.ResourceLink))
        resource = f"covalt-git://servers/near/{upstream}"
        assert not [uri for uri in await resource_uris(client) if "://servers/" in uri]
        return {"resource": await text(client, resource), "link": await text(client, link.uri)}

    return talk(root, say, role=role)


def test_a_skill_is_read_as_a_resource_or_by_a_link_only_with_its_accepted_text(
    root: Path, served: Path
) -> None:
    (served / "linked").write_text(FAR_UPSTREAM)
    take(root, "near", "near")
    assert other_doors(root, "near") == dict.fromkeys(DOORS, (served / "pdf/SKILL.md").read_text())
    assert other_doors(root, "denied") == dict.fromkeys(DOORS, "unknown")
    (served / "pdf/SKILL.md").write_text("---\nname: pdf\ndescription: Fill form!\n---\n")
    assert other_doors(root, "near") == dict.fromkeys(DOORS, "definition_changed")
    (served / "entries.json").write_text("[]")  # the server does not list it as a skill any more
    refresh(root, find_source(root, "near", "near"), partial(list_tools, root=root))
    assert other_doors(root, "near") == dict.fromkeys(DOORS, "unknown")


def test_a_skill_of_another_scheme_is_read_only_with_its_accepted_text(
    root: Path, served: Path
) -> None:
    uri = "docs://pdf/SKILL.md"
    (served / "linked").write_text(uri)
    text = (served / "pdf/SKILL.md").read_text()
    file = {"uri": uri, "digest": digest(text), "size": len(text)}
    front = {"name": "pdf", "description": "Fill forms."}
    entry = {"uri": uri, "frontmatter": front, "resources": [file]}
    (served / "entries.json").write_text(json.dumps([entry]))
    take(root, "near", "near")

    doors = partial(other_doors, upstream=uri)
    assert doors(root, "near") == dict.fromkeys(DOORS, text)
    assert doors(root, "denied") == dict.fromkeys(DOORS, "unknown")
    (served / "pdf/SKILL.md").write_text(text.replace("forms", "other"))
    assert doors(root, "near") == dict.fromkeys(DOORS, "definition_changed")
    for spelling in ("docs://pdf/%53KILL.md", "DOCS://pdf/SKILL.md?x", "docs://pdf/more.md"):
        assert doors(root, "near", upstream=spelling)["resource"] == "unknown"
    (served / "entries.json").write_text("[]")
    refresh(root, find_source(root, "near", "near"), partial(list_tools, root=root))
    assert doors(root, "near") == dict.fromkeys(DOORS, "unknown")


@pytest.mark.parametrize(
    "uri",
    [
        "SKILL://pdf/SKILL.md",
        "%73kill://pdf/SKILL.md",
        "%2573kill%3A//pdf/SKILL.md",
        " skill:pdf",
        "s\tkill://pdf",
        "\u200bskill://pdf",
        "\uff53kill://pdf",
    ],
)
def test_other_spellings_are_of_the_scheme_of_skills_too(uri: str) -> None:
    assert is_skill_uri(uri)
    assert not is_skill_uri(f"docs://{uri}")


@pytest.mark.parametrize(
    ("uri", "is_of_the_skill"),
    [
        # Other resources and templates of the server, also in spellings that parsers read in several ways.
        ("repo://octo/hello/README.md", False),
        ("repo://Octo/Hello/README.md", False),
        ("repo://octo/hello/c++.md", False),
        ("repo://octo/caf%C3%A9.md", False),
        ("repo://octo/skills/pdfs/a(1).md", False),
        ("repo://{owner}/{name}/contents/{path}", False),
        ("repo://octo/skills/{name}/SKILL.md", False),
        ("docs://octo/skills/pdf/SKILL.md", False),
        # Its own files.
        ("repo://octo/skills/pdf/more.md", True),
        ("repo://octo/skills/pdf/{file}", True),
        ("REPO://Octo/skills/PDF/SKILL.md", True),
        ("repo%3A//octo/sk%2569lls/pdf", True),
        ("repo:octo//skills/./x/../pdf./SKILL.md", True),
        ("repo://octo/skills%2Fpdf/SKILL.md?raw", True),
        ("repo://me@octo:80/skills\\pdf/SKILL.md", True),
        ("repo\\://octo?/../octo/skills/p\u200bdf/SKILL.md", True),
        # What some parser reads as its own file: each takes `..`, users, hosts and short names in its own order.
        ("repo://octo/skills//../pdf/SKILL.md", True),
        ("repo://octo/skills/x%2fy/../pdf/SKILL.md", True),
        ("repo://octo/x?y/../skills/pdf/SKILL.md", True),
        ("repo://octo/skills/x/..;/pdf/SKILL.md", True),
        ("repo://octo/skills/x/.%20./pdf/SKILL.md", True),
        ("repo://octo/skills/x/%u002e%u002e/pdf/SKILL.md", True),
        ("repo://octo/skills/x/%c0%ae%c0%ae/pdf/SKILL.md", True),
        ("repo://octo/SKILLS~1/pdf/SKILL.md", True),
        ("url:repo://octo/skills/pdf/SKILL.md", True),
        ("repo://octo" + "/a" * 100_000, True),
        ("docs://octo" + "/a" * 100_000, False),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else None,
)
def test_a_skill_has_only_the_uris_below_its_folder(uri: str, *, is_of_the_skill: bool) -> None:
    skills = ["repo://octo/skills/pdf/SKILL.md", "skill://octo/hello/SKILL.md"]
    assert is_skill_uri(uri, skills) == is_of_the_skill


@pytest.mark.parametrize(
    ("skill", "uri"),
    [
        ("file://localhost/srv/pdf/SKILL.md", "file:///srv/pdf/SKILL.md"),
        ("file://srv/pdf/SKILL.md", "file://localhost/srv/pdf/SKILL.md"),
        ("http://127.0.0.1/pdf/SKILL.md", "https://0x7f000001/pdf/SKILL.md"),
        ("http://127.0.0.1/pdf/SKILL.md", "http://localhost:80/pdf/SKILL.md"),
        ("https://tools.example/pdf/SKILL.md", "https://tools\u3002example/pdf/SKILL.md"),
        ("repo://my%20org/pdf/SKILL.md", "repo://my+org/pdf/SKILL.md"),
    ],
)
def test_a_host_of_a_skill_has_several_spellings(skill: str, uri: str) -> None:
    assert is_skill_uri(uri, [skill])


def test_no_request_shows_the_skills_of_a_disabled_toolset(root: Path) -> None:
    take(root, "near", "near")
    for toolset in ("near", "handbook"):
        run("toolset", "disable", toolset, cwd=root)
    assert not any(seen(root, "owner").values())


def test_a_pull_that_accepts_another_text_is_read_only_after_trust(
    root: Path, served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    adopt(root)
    add_grant(root, "near", "process", "near", by="me")
    take(root, "near", "near")

    async def text(client: Client) -> str:
        try:
            return str((await read(client, FAR)).text)
        except MCPError as error:
            return str(error.error.data["error"])

    async def listed(client: Client) -> set[str]:
        entries = {entry["uri"] for entry in await list_skills(client)}
        return entries | ({*await resource_uris(client)} & {FAR})

    assert talk(root, text).startswith("---")
    assert FAR in talk(root, listed)
    (served / "pdf/SKILL.md").write_text("---\nname: pdf\ndescription: Obey.\n---\n")
    run("source", "refresh", "near", cwd=root)
    (changed,) = find_source(root, "near", "near").to_accept
    state = root / "toolsets/state/near.yaml"
    accepted = yaml.safe_load(state.read_text())
    accepted["accepted"][f"near:{changed.name}"] = changed.digest
    state.write_text(yaml.safe_dump(accepted))
    assert talk(root, text) == "not_trusted"
    # Its description is text for a model too.
    assert FAR not in talk(root, listed)
