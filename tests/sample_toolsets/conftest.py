"""Loads a sample toolset's modules the way the runtime does: its folder first on the path."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from covalt_toolset import set_context

TOOLSETS = Path(__file__).resolve().parents[2] / "toolsets"


def forget_tools() -> None:
    """Every toolset calls its package ``tools``, so that only one can be loaded at a time."""
    for name in [name for name in sys.modules if name.split(".")[0] == "tools"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def load() -> Iterator[Callable[[str, str], ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)

        def load_module(toolset: str, module: str) -> ModuleType:
            if sys.path[0] != str(TOOLSETS / toolset):
                forget_tools()
                patch.syspath_prepend(str(TOOLSETS / toolset))
            return importlib.import_module(module)

        forget_tools()
        yield load_module
        forget_tools()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    """A workspace with the context of a call, and a file outside that no tool may touch."""
    (tmp_path / "secret.txt").write_text("secret TODO", encoding="utf-8")
    folder = tmp_path / "workspace"
    folder.mkdir()
    with set_context(workspace=folder):
        yield folder
    assert (tmp_path / "secret.txt").read_text(encoding="utf-8") == "secret TODO"
    assert {path.name for path in tmp_path.iterdir()} <= {"secret.txt", "workspace", "page.html"}
