"""Bundles as an administrator exports, imports, verifies and updates them."""

import json
from io import BytesIO
from pathlib import Path

import pytest

from covalt_git.models.sources.tool_lock import locked_tool
from covalt_git.operations.registry import RequestFile
from covalt_git.toolsets.toolset import read_toolset
from tests.operations_client import Operations
from tests.ssh_keys import Key, make_key

MANIFEST = """\
id: demo
name: Demo
version: "1.2"
secrets: [BASE_URL]
tools:
  - {id: web, http: {url: "https://example.com/"}}
  - {id: far, http: {url: "${BASE_URL}/x"}}
"""


@pytest.fixture(scope="module")
def ann(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return make_key(tmp_path_factory.mktemp("keys"), "ann")


@pytest.fixture(scope="module")
def bob(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return make_key(tmp_path_factory.mktemp("keys"), "bob")


def project(folder: Path, config: str = "") -> Operations:
    (folder / "toolsets").mkdir(parents=True)
    (folder / "covalt.yaml").write_text(f"version: 1\n{config}", encoding="utf-8")
    return Operations(folder)


@pytest.fixture
def theirs(tmp_path: Path) -> Operations:
    """The project that bundles are made in."""
    made = project(
        tmp_path / "theirs", 'roles: {some: {allow: ["demo.web"]}, owner: {admin: true}}'
    )
    (made.root / "toolsets/demo").mkdir()
    (made.root / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    return made.as_role("owner")


@pytest.fixture
def ours(tmp_path: Path, ann: Key, bob: Key) -> Operations:
    """The project that imports them, and trusts both keys."""
    return project(tmp_path / "ours", f"signers:\n  - {ann.allowed()}\n  - {bob.allowed('bob')}\n")


@pytest.fixture
def signed(theirs: Operations, ann: Key) -> Path:
    """A bundle that ann signed."""
    file = theirs.root / "demo.zip"
    theirs("write_bundle", toolset_id="demo", path=file, key=ann.file)
    return file


def edit(operate: Operations) -> None:
    manifest = operate.root / "toolsets/demo/toolset.yaml"
    manifest.write_text(f"{manifest.read_text('utf-8')}description: mine\n", encoding="utf-8")


def test_a_review_shows_the_approvals_that_an_imported_toolset_cannot_waive(
    theirs: Operations, ours: Operations
) -> None:
    folder = theirs.root / "toolsets/demo"
    manifest = (folder / "toolset.yaml").read_text("utf-8")
    waived = "web, annotations: {destructive: true}, requires_confirmation: false,"
    (folder / "toolset.yaml").write_text(manifest.replace("web,", waived), encoding="utf-8")

    review = ours("import_toolset_from", source=str(folder), dry_run=True)
    ours("import_toolset_from", source=str(folder))
    ours("enable_toolset", toolset_id="demo", enabled=True)

    tools = {tool["tool_id"]: tool["requires_confirmation"] for tool in review["tools"]}
    assert tools == {"demo:web": ["destructive"], "demo:far": []}
    imported = ours("get_tool", tool_id="demo:web")["requires_confirmation"]
    assert imported == tools["demo:web"]


def test_an_ambiguous_document_is_imported_in_the_format_that_is_named(
    ours: Operations, tmp_path: Path
) -> None:
    file = tmp_path / "servers.json"
    servers = {"mcpServers": {"web": {"url": "https://example.com/mcp", "timeout": 30}}}
    file.write_text(json.dumps(servers), encoding="utf-8")
    sent = {"file": [RequestFile("servers.json", BytesIO(file.read_bytes()))]}

    hint = ours.error("import_toolset_from", source=str(file)).hint
    assert hint == "add --from, with one of: claude-code, gemini-cli, cline, lm-studio"
    named = {"source_format": "claude-code", "dry_run": True}
    assert ours("import_toolset_from", source=str(file), **named)["mcp_servers"]
    assert ours("import_toolset", **sent, **named)["mcp_servers"]


def test_what_cannot_be_signed_is_not_written(theirs: Operations, ann: Key) -> None:
    path = theirs.root / "new.zip"
    no_key = theirs.root / "covalt.yaml"
    refused = theirs.error("write_bundle", toolset_id="demo", path=path, key=no_key)
    assert refused.code == "not_signed"
    assert not path.exists()

    signature = theirs.root / "new.zip.sig"
    signature.write_bytes(b"another's")
    refused = theirs.error("write_bundle", toolset_id="demo", path=path, key=ann.file)
    assert refused.code == "invalid_request"
    assert not path.exists()
    assert signature.read_bytes() == b"another's"


def test_a_signature_that_is_sent_with_a_bundle_is_checked(
    ours: Operations, signed: Path, bob: Key
) -> None:
    def sent(signature: bytes) -> dict[str, list[RequestFile]]:
        return {
            "file": [RequestFile("demo.zip", BytesIO(signed.read_bytes()))],
            "signature": [RequestFile("demo.zip.sig", BytesIO(signature))],
        }

    assert ours.error("import_toolset", **sent(bob.sign(b"another"))).code == "content_changed"
    done = ours("import_toolset", **sent(signed.with_name("demo.zip.sig").read_bytes()))
    assert done["signer"]["principal"] == "ann@example.com"


def test_a_bundle_is_verified_against_the_imported_toolset(
    theirs: Operations, ours: Operations, signed: Path, ann: Key
) -> None:
    first = ours("verify_bundle", file=signed)
    assert first["digest"] == read_toolset(theirs.root, "demo").digest
    assert not first["installed"]

    ours("import_toolset_from", source=str(signed))
    same = ours("verify_bundle", file=signed)
    assert (same["installed"], same["is_recorded"], same["changed_here"]) == (True, True, False)
    assert same["signer"] == same["recorded"]["signer"]
    assert same["signer"]["fingerprint"] == ann.fingerprint

    edit(ours)
    assert ours("verify_bundle", file=signed)["changed_here"]
    edit(theirs)
    newer = theirs.root / "newer.zip"
    theirs("write_bundle", toolset_id="demo", path=newer, key=ann.file)
    other = ours("verify_bundle", file=newer)
    assert (other["is_recorded"], other["problem"]) == (False, None)


def test_a_grant_of_hosts_is_for_the_files_also_beside_a_server_named_network(
    ours: Operations, tmp_path: Path
) -> None:
    (tmp_path / "demo").mkdir()
    text = f"{MANIFEST}mcp_servers: [{{id: network, command: run}}]\n"
    (tmp_path / "demo/toolset.yaml").write_text(text, encoding="utf-8")

    imported = ours("import_toolset_from", source=str(tmp_path / "demo"))

    digests = {one["kind"]: one["digest"] for one in imported["grants"]}
    assert digests["network"] == imported["digest"] != digests["server"]


def test_a_toolset_is_verified_with_its_grants_and_accepted_tools(
    ours: Operations, signed: Path
) -> None:
    ours("import_toolset_from", source=str(signed))
    ours("add_grant", toolset_id="demo", kind="network", hosts=["example.com"])
    tools = {name: locked_tool({"name": name, "inputSchema": {}}) for name in ("a", "b")}
    digest = tools["a"].digest
    state = ours.root / "toolsets/state/demo.yaml"
    accepted = f"accepted:\n  srv:a: {digest}\n  srv:b: {digest}\n  srv:c: {digest}\n"
    state.write_text(state.read_text("utf-8") + accepted, encoding="utf-8")
    (ours.root / "toolsets/locks").mkdir()
    given = {name: tool.model_dump(exclude_defaults=True) for name, tool in tools.items()}
    lock = {"namespace": "srv", "toolset_id": "demo", "kind": "mcp", "tools": given}
    (ours.root / "toolsets/locks/srv.yaml").write_text(json.dumps(lock), encoding="utf-8")

    found = ours("verify_toolset", toolset_id="demo")
    assert (found["is_recorded"], found["grants"]) == (True, {"network": True})
    assert found["accepted"] == {"srv:a": True, "srv:b": False, "srv:c": False}

    manifest = ours.root / "toolsets/demo/toolset.yaml"
    manifest.write_text(manifest.read_text("utf-8").replace(".com/", ".com/new"), encoding="utf-8")
    changed = ours("verify_toolset", toolset_id="demo")
    assert (changed["is_recorded"], changed["grants"]) == (False, {"network": False})


def test_a_config_that_cannot_be_edited_safely_stays_as_it_is(
    tmp_path: Path, signed: Path, ann: Key, bob: Key
) -> None:
    config = f"signers: ['{bob.allowed('bob')}']\n"
    ours = project(tmp_path / "mine", config)

    refused = ours.error(
        "import_toolset_from", source=str(signed), trusted_signer=ann.allowed("ann")
    )
    assert refused.code == "config_not_editable"
    assert config in (ours.root / "covalt.yaml").read_text(encoding="utf-8")
    assert ours("list_toolsets")["toolsets"] == []
    assert ours("import_toolset_from", source=str(signed), unsigned=True)["signer"] is None
