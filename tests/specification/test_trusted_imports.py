"""Imports in one reviewed step: the toolset is enabled, granted what it requests, and its servers are connected."""

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from covalt_git.cli import cli
from covalt_git.errors import CovaltError
from covalt_git.runtime import sandbox_levels
from tests.api_client import Api, form_file, refused
from tests.mcp_client import REPOSITORY, talk, tool_names
from tests.server.visitor import Visitor

needs_sandbox = pytest.mark.skipif(
    sandbox_levels.level() == "process", reason="imported toolsets need a sandbox"
)
SERVER = REPOSITORY / "fixtures/servers/changing.py"
MANIFEST = f"""\
id: shop
name: Shop
version: "1"
secrets: [SHOP_KEY]
tools:
  - {{id: order, http: {{url: "https://shop.example/order", headers: {{X-Key: "${{SHOP_KEY}}"}}}}}}
mcp_servers:
  - {{id: disk, command: "{sys.executable}", args: [changing.py, offered.json]}}
"""
OFFERED = [{"name": "list", "inputSchema": {"type": "object"}}]

Imported = Callable[[Path, Path], Any]
"""Imports a bundle into a project with trust."""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    file = tmp_path / "shop.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("toolset.yaml", MANIFEST)
        archive.writestr("offered.json", json.dumps(OFFERED))
        archive.writestr("changing.py", SERVER.read_text(encoding="utf-8"))
    return file


def run(root: Path, *args: str | Path) -> Any:
    return CliRunner().invoke(cli, ["-C", str(root), "bundle", "import", *map(str, args)])


def send(root: Path, bundle: Path, **fields: str) -> Any:
    file = form_file(bundle.name, bundle.read_bytes())
    return Api.of(root).send_form("import_toolset", {"file": file, **fields})


def by_api(root: Path, bundle: Path) -> None:
    reviewed = send(root, bundle, dry_run="true").get_json()
    done = send(root, bundle, trust=reviewed["digest"])
    assert done.get_json()["trusted"] is True


def by_page(root: Path, bundle: Path) -> None:
    visitor = Visitor.of(root)
    form = visitor.open("/imports").form("/imports")
    review = visitor.send(form, file=(io.BytesIO(bundle.read_bytes()), bundle.name))
    (box,) = [one for one in review.named("input") if one.get("name") == "trust"]
    assert "checked" not in box
    form = next(form for form in review.forms if "permission" in form.fields)
    visitor.send(form, trust=box["value"])


def state(root: Path) -> Any:
    return Api.of(root).get("get_toolset", toolset_id="shop")


@needs_sandbox
@pytest.mark.requirement("covalt-3.3.8", "covalt-6.1.3", "covalt-6.1.4")
@pytest.mark.parametrize("imported", [by_api, by_page])
def test_an_import_with_trust_enables_grants_and_connects(
    root: Path, bundle: Path, imported: Imported
) -> None:
    imported(root, bundle)

    found = state(root)
    assert found["enabled"] is True
    assert {*found["grants"]} == {"network", "process-disk", "secret-SHOP_KEY"}
    assert found["lacking"] == []
    (source,) = Api.of(root).get("list_sources", toolset_id="shop")["sources"]
    assert (source["enabled"], source["tool_names"], source["accepted"]) == (True, ["list"], 0)


@pytest.mark.requirement("covalt-3.3.8")
def test_an_import_without_trust_is_inert(root: Path, bundle: Path) -> None:
    assert run(root, bundle).exit_code == 0

    found = state(root)
    assert (found["enabled"], found["grants"]) == (False, {})
    assert not (root / "toolsets/locks/disk.yaml").exists()


def test_the_review_prints_each_grant_with_its_digest(root: Path, bundle: Path) -> None:
    shown = send(root, bundle, dry_run="true").get_json()
    printed = run(root, bundle, "--trust")

    words = ["network shop.example", "secret SHOP_KEY shop.example", "server disk"]
    assert [
        " ".join(filter(None, (one["kind"], one["name"], one["host"]))) for one in shown["grants"]
    ] == words
    digests = [one["digest"] for one in shown["grants"]]
    assert digests[:2] == [shown["digest"]] * 2
    assert digests[2].startswith("sha256:")
    assert digests[2] != shown["digest"]
    for word, digest in zip(words, digests, strict=True):
        assert f"it gets: {word}, for {digest}" in printed.output
    assert isinstance(printed.exception, CovaltError)
    assert printed.exception.code == "terminal_needed"
    assert not (root / "toolsets/shop").exists()


def test_another_digest_than_the_reviewed_one_is_refused(root: Path, bundle: Path) -> None:
    refused(send(root, bundle, trust="sha256:" + "0" * 64), 409, "moved")

    assert not (root / "toolsets/shop").exists()


def test_an_update_cannot_be_trusted(root: Path, bundle: Path) -> None:
    assert run(root, bundle).exit_code == 0

    done = run(root, bundle, "--trust", "--no-terminal", "a test", "--json")

    assert done.exit_code == 1
    assert state(root)["grants"] == {}


def test_a_machine_without_a_sandbox_refuses_trust(
    root: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = send(root, bundle, dry_run="true").get_json()["digest"]
    monkeypatch.setattr(sandbox_levels, "level", lambda: "process")

    refused(send(root, bundle, trust=digest), 403, "sandbox_needed")

    assert not (root / "toolsets/shop").exists()


def test_no_tool_of_agents_imports(root: Path) -> None:
    assert not [name for name in talk(root, tool_names) if "import" in name]
