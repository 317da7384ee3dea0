"""Review of an import whose servers are scripts of this machine: their folders are offered with the other grants."""

import json
import sys
from pathlib import Path

import pytest

from covalt_git.runtime import sandbox_levels
from covalt_git.trust import Consents
from tests.api_client import Api, form_file
from tests.mcp_client import REPOSITORY
from tests.server.visitor import Form, Page, Visitor
from tests.trusting import use_config

pytestmark = pytest.mark.skipif(
    sandbox_levels.level() == "process", reason="imported toolsets need a sandbox"
)


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> dict[str, Path]:
    """Scripts of MCP servers in folders of their own, by the names of the servers; only their grants are trusted."""
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    Consents.of(root).trust_new_project()
    text = (REPOSITORY / "fixtures/servers/changing.py").read_text(encoding="utf-8")
    files = {}
    for name in ("weather", "clock"):
        folder = tmp_path / f"home/{name} tools"
        folder.mkdir(parents=True)
        files[name] = folder / f"{name}.py"
        files[name].write_text(text)
        (folder / "offered.json").write_text(f'[{{"name": "{name}", "inputSchema": {{}}}}]')
    return files


def document(scripts: dict[str, Path]) -> bytes:
    servers = {
        name: {
            "command": sys.executable,
            "args": [str(file), str(file.with_name("offered.json"))],
        }
        for name, file in scripts.items()
    }
    return json.dumps({"mcpServers": servers}).encode()


def review(visitor: Visitor, scripts: dict[str, Path]) -> tuple[Page, Form, str]:
    """Return the review of an import, its form, and what its box for the grants holds."""
    form = visitor.open("/imports").form("/imports")
    page = visitor.send(form, "Review", file=form_file("mcp.json", document(scripts)))
    form = next(form for form in page.forms if "offered" in form.fields)
    (digest,) = {box["value"] for box in page.named("input") if box.get("name") == "trust"}
    return page, form, digest


def folders_of(root: Path) -> dict[str, list[str]]:
    grants = Api.of(root).get("get_toolset", toolset_id="mcp")["grants"]
    return {grant["server"]: grant["sandbox"]["folders"] for grant in grants.values()}


def test_one_import_grants_the_folder_of_a_script_so_that_its_server_lists_its_tools(
    visitor: Visitor, root: Path, scripts: dict[str, Path]
) -> None:
    page, form, digest = review(visitor, scripts)
    folder = scripts["weather"].parent
    boxes = [box for box in page.named("input") if box.get("name") == "folder"]
    assert {box["value"] for box in boxes} == {"weather", "clock"}
    assert not any("checked" in box for box in boxes)
    assert f"Also let weather read {folder} , with all files and folders in it" in page.text
    assert f"with the folder '{folder}'" in page.text

    page = visitor.send(form, trust=digest, folder="weather")

    assert folders_of(root) == {"weather": [str(folder)], "clock": []}
    assert "clock did not list its tools" in page.text
    assert "not trusted" not in visitor.open("/toolsets").text
    sources = Api.of(root).get("list_sources", toolset_id="mcp")["sources"]
    assert {source["namespace"]: source["tool_names"] for source in sources} == {
        "weather": ["weather"],
        "clock": [],
    }


def test_a_folder_without_the_box_of_the_grants_imports_nothing_and_says_so(
    visitor: Visitor, root: Path, scripts: dict[str, Path]
) -> None:
    _, form, _ = review(visitor, scripts)

    page = visitor.send(form, folder="weather")

    assert "Nothing was imported: folders are granted only together with the grants" in page.text
    assert "Also let weather read" in page.text
    assert not (root / "toolsets/mcp").exists()


def test_a_folder_whose_permission_was_not_shown_is_not_granted(
    visitor: Visitor, root: Path, scripts: dict[str, Path]
) -> None:
    _, form, digest = review(visitor, scripts)
    form.fields["with:weather"] = form.fields["without:weather"]

    page = visitor.send(form, trust=digest, folder="weather")

    assert "the permissions of 'mcp' have changed since your review" in page.text.lower()
    assert folders_of(root) == {}


def test_a_second_import_after_an_edit_neither_loses_nor_widens_the_folders(
    visitor: Visitor, root: Path, scripts: dict[str, Path]
) -> None:
    _, form, _ = review(visitor, scripts)
    visitor.send(form)
    granted = {name: [str(file.parent)] for name, file in scripts.items()}
    # As the import, but no server is started.
    Api.of(root).post("add_requested_grants", toolset_id="mcp", folders=granted)

    elsewhere = scripts["clock"].parent.with_name("elsewhere")
    elsewhere.mkdir()
    moved = scripts | {"clock": scripts["clock"].rename(elsewhere / "clock.py")}
    form = visitor.open("/imports").form("/imports")
    page = visitor.send(form, "Review", file=form_file("mcp.json", document(moved)))
    assert not [box for box in page.named("input") if box.get("name") == "folder"]
    form = next(form for form in page.forms if ("", "", "Continue") in form.buttons)
    page = visitor.send(form, "Continue", existing="replace")
    form = next(form for form in page.forms if ("", "", "Replace mcp") in form.buttons)
    visitor.send(form, "Replace mcp")

    assert folders_of(root) == granted
    assert [*Api.of(root).get("get_toolset", toolset_id="mcp")["ended"]] == ["process-clock"]


@pytest.mark.rest
def test_a_renamed_server_is_offered_its_folder_and_listed_before_others_are_accepted(
    visitor: Visitor, scripts: dict[str, Path], root: Path
) -> None:
    _, form, digest = review(visitor, scripts)
    visitor.send(form, "Import", trust=digest, folder=["weather", "clock"])
    file = root / "toolsets/mcp/toolset.yaml"
    file.write_text(file.read_text().replace("id: weather", "id: forecast"))

    page = visitor.open("/toolsets/mcp")
    granted = visitor.send(page.form("/grants/requested"))
    assert "Next: ask its servers for their tools." in granted.text
    assert granted.link("Show them") == "/toolsets/mcp#source-forecast"
    assert folders_of(root)["forecast"] == []

    button = "Grant with this folder to forecast"
    form = next(form for form in page.forms if button in {words for *_, words in form.buttons})
    assert visitor.send(form, button).status == 200
    assert folders_of(root)["forecast"] == [str(scripts["weather"].parent)]
