"""A project with two small toolsets."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from covalt_git.catalog.catalog import Catalog
from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project

CODE = "def run(text: str = '') -> str:\n    return text\n"


@dataclass(frozen=True)
class Shelf:
    """A project whose tools a test lists and finds."""

    root: Path

    def configure(self, text: str) -> None:
        (self.root / "covalt.yaml").write_text("version: 1\n" + dedent(text), encoding="utf-8")

    def toolset(self, name: str, *tools: str, more: str = "") -> None:
        folder = self.root / "toolsets" / name
        (folder / "tools").mkdir(parents=True, exist_ok=True)
        (folder / "tools" / "it.py").write_text(CODE, encoding="utf-8")
        lines = [f"  - {{id: {tool}, entrypoint: tools.it:run}}\n" for tool in tools]
        head = f"id: {name}\nname: {name}\nversion: '1.0'\n"
        text = head + "tools:\n" + "".join(lines) + more
        (folder / "toolset.yaml").write_text(text, encoding="utf-8")

    def catalog(self, role: str | None = None) -> Catalog:
        return Project.open(self.root, role=role).catalog


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    root = tmp_path / "project"
    create_project(root)
    made = Shelf(root)
    made.toolset("garden", "water", "weed", "secret_bed")
    made.toolset("vault", "secret_door", "water")
    made.configure("")
    return made
