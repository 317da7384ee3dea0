"""A real compiled dependency: installed by what the manifest says, imported once, used on a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.calls.engine import Request
from covalt_git.runtime import environments, sandbox
from covalt_git.runtime.environments import CannotInstallError

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.calls import SandboxLevel
    from tests.calls.conftest import World

LEVELS = [one.level for one in sandbox.levels() if one.here]
NEEDS = ["numpy>=1.26"]

MANIFEST = """
id: numbers
name: Numbers
version: "1"
python: {dependencies: ["numpy>=1.26"]}
tools:
  - {id: fit, entrypoint: tools.it:fit}
"""
PYTHON = """
import time

import numpy as np
from covalt_toolset import get_context

IMPORTED = time.monotonic_ns()


def fit(path: str) -> dict[str, float]:
    \"\"\"Fit a line through the points of a file, and keep what is left over.\"\"\"
    context = get_context()
    x, y = np.loadtxt(context.path(path), delimiter=",", skiprows=1, unpack=True)
    matrix = np.vstack([x, np.ones_like(x)]).T
    (slope, offset), *_ = np.linalg.lstsq(matrix, y, rcond=None)
    np.save(context.path("rest.npy"), y - (slope * x + offset))
    return {"slope": round(float(slope), 6), "offset": round(float(offset), 6),
            "imported": IMPORTED}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the environment in it."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        try:
            environments.interpreter(NEEDS)
        except CannotInstallError as error:
            pytest.skip(f"numpy cannot be installed here: {error.message}")
    return folder


@pytest.mark.parametrize("level", LEVELS)
def test_numpy_is_imported_once_and_reads_the_files_of_the_chat(
    world: World, cache: Path, monkeypatch: pytest.MonkeyPatch, level: SandboxLevel
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    world.write("numbers/toolset.yaml", MANIFEST)
    world.write("numbers/tools/it.py", PYTHON)
    project = world.project()
    results: list[Any] = []
    with project.chats.open("c1") as chat:
        engine = replace(project.engine(), level=level)
        for slope in (2, -3):
            rows = "".join(f"{x},{slope * x + 1}\n" for x in range(200))
            (world.workspace / "points.csv").write_text(f"x,y\n{rows}")
            call = engine.call(chat, Request("numbers:fit", {"path": "points.csv"})).call
            assert (call.status, call.error) == ("success", None)
            results.append(call.result)

    assert [(found["slope"], found["offset"]) for found in results] == [(2.0, 1.0), (-3.0, 1.0)]
    assert len({found["imported"] for found in results}) == 1
    kept = world.git("cat-file", "-s", "main:rest.npy")
    assert int(kept) == 200 * 8 + 128
