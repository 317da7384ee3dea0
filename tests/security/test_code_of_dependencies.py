"""Packages in ``python.dependencies`` run in the sandbox only, whatever files their wheels bring."""

import shutil
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.python_tool import run
from tests.examples import covering, rest
from tests.runtime.conftest import Workshop, pool, workshop
from tests.runtime.in_sandbox import HOLDING

__all__ = ["pool", "workshop"]

NEEDED = (
    *("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"),
    "docstring_parser",
)
TOOL = """
import builtins, sys

def run(path: str) -> dict:
    return {"ran": sorted(set(builtins.ran)), "prefix": sys.prefix, "python": sys.executable}
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with what the SDK needs, as the installer makes it."""
    folder = tmp_path / "environment"
    venv.create(folder, symlinks=True)
    installed = Path(sysconfig.get_path("purelib"))
    for name in NEEDED:
        for file in metadata.files(name) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = packages(folder) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(installed / file, target)
    return folder


def packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def attack(name: str, canary: Path) -> str:
    """Return code that notes that it ran, and makes a file outside of the sandbox."""
    return (
        "import builtins, contextlib, os\n"
        f"builtins.ran = [*getattr(builtins, 'ran', []), {name!r}]\n"
        f"with contextlib.suppress(OSError): os.close(os.open({str(canary)!r}, os.O_CREAT))\n"
    )


@pytest.mark.parametrize(("warm", "level"), covering([False, True], HOLDING))
def test_code_that_python_runs_at_its_start_runs_in_the_sandbox(
    workshop: Workshop, environment: Path, tmp_path: Path, level: SandboxLevel, *, warm: bool
) -> None:
    canary, folder = tmp_path / "it-ran", packages(environment)
    (folder / "evil.pth").write_text(f"import os; exec({attack('pth', canary)!r})\n")
    (folder / "sitecustomize.py").write_text(attack("sitecustomize", canary))
    (folder / "usercustomize.py").write_text(attack("usercustomize", canary))
    for name in NEEDED:
        module = folder / name / "__init__.py"
        module = module if module.exists() else folder / f"{name}.py"
        source = module.read_text(encoding="utf-8")
        future = "from __future__ import annotations\n"
        added = f"exec({attack(name, canary)!r})\n"
        module.write_text(
            source.replace(future, future + added, 1) if future in source else added + source,
            encoding="utf-8",
        )
    for name in ("covalt_git", "covalt_toolset"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(attack(name, canary))
    workshop.write("tools/it.py", TOOL)
    job = workshop.job(python=environment / "bin/python", level=level, args={"path": ""}, warm=warm)

    first, second = (run(job, pool=workshop.pool) for _ in range(2))

    assert first.error is None
    assert first.result == second.result
    assert isinstance(first.result, dict)
    # A `.pth` is for packages that need it, and pydantic may be another version: both act, but in the sandbox.
    ran = {"pth", "sitecustomize", *NEEDED} - {"docstring_parser"}
    # That of Debian is found first where its target in /etc is to be seen.
    if level != "full" and (Path(sysconfig.get_path("stdlib")) / "sitecustomize.py").exists():
        ran.remove("sitecustomize")
    assert set(first.result["ran"]) - {"docstring_parser"} == ran
    assert first.result["prefix"] == str(environment)
    assert first.result["python"] == str(environment / "bin/python")
    assert not canary.exists()


@pytest.mark.parametrize("level", [*HOLDING[:1], *map(rest, HOLDING[1:])])
def test_an_interpreter_that_a_package_replaced_is_not_started(
    workshop: Workshop, environment: Path, tmp_path: Path, level: SandboxLevel
) -> None:
    """A wheel can have scripts of any name, also ``python``."""
    canary = tmp_path / "it-ran"
    for python in environment.glob("bin/python*"):
        python.unlink()
        python.write_text(f"#!/bin/sh\ntouch {canary}\n")
        python.chmod(0o755)

    outcome = workshop.call("return 1", python=environment / "bin/python", level=level)

    assert outcome.result == 1
    assert not canary.exists()


@pytest.mark.parametrize("level", HOLDING)
def test_a_package_that_breaks_the_start_is_an_error_of_the_call(
    workshop: Workshop, environment: Path, level: SandboxLevel
) -> None:
    (packages(environment) / "pydantic/__init__.py").write_text("raise SystemExit('broken')\n")

    outcome = workshop.call("return 1", python=environment / "bin/python", level=level)

    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("cannot_load", "SystemExit: broken")
