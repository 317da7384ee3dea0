"""docs/project/architecture.md says what the code is: its layers are those of import-linter, and its files exist."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")


def test_the_layers_are_those_of_import_linter() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    diagram = PAGE.split("```")[1].strip().splitlines()

    assert [line.partition("  ")[0] for line in diagram if line[0] != " "] == [
        layer.replace("covalt_git.", "") for layer in layers
    ]


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGE)
    code = [ROOT, ROOT / "covalt_git", ROOT / "server" / "covalt_server"]

    assert len(named) > 50
    assert [one for one in named if not any((folder / one).exists() for folder in code)] == []


def test_refs_are_never_packed_by_dulwich() -> None:
    """See docs/project/upstream/pack-refs-loses-refs.md; ruff bans modules and functions, not methods."""
    files = (ROOT / "covalt_git").rglob("*.py")
    calls = re.compile(r"\.(?:pack_refs|add_packed_refs)\(")

    assert [path.name for path in files if calls.search(path.read_text(encoding="utf-8"))] == []
