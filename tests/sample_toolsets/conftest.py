"""Loads a sample toolset's modules the way the runtime does: its folder first on the path."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

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
            patch.syspath_prepend(str(TOOLSETS / toolset))
            return importlib.import_module(module)

        forget_tools()
        yield load_module
        forget_tools()
