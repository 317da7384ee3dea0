"""Environments: real installations of a compiled package, and everything that can go wrong in one."""

import os
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime import environments
from covalt_git.runtime.environments import CannotInstallError, InstallCancelledError
from covalt_git.runtime.python_tool import run
from tests.examples import rest
from tests.runtime.conftest import Workshop, error_of
from tests.runtime.in_sandbox import HOLDING, LEVELS

NEEDS = ["orjson>=3"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which two callers have installed the same at the same time."""
    folder = tmp_path_factory.mktemp("cache")
    reports: list[list[str]] = [[], []]
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as threads:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        install = environments.interpreter
        both = [threads.submit(install, NEEDS, report=one.append) for one in reports]
        try:
            assert both[0].result() == both[1].result()
        except CannotInstallError as error:
            pytest.skip(f"orjson cannot be installed here: {error.message}")
    first_lines = sorted(one[0] for one in reports)
    assert first_lines == ["installing orjson>=3", "waiting for another installation of the same"]
    return folder


@pytest.fixture
def installed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return environments.interpreter(NEEDS)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without environments, and no index but what a test sets up."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    return environments.cache_folder()


@pytest.mark.parametrize("level", [*LEVELS[:1], *map(rest, LEVELS[1:])])
def test_a_tool_uses_a_compiled_package_and_does_not_see_our_packages(
    workshop: Workshop, installed: Path, level: SandboxLevel
) -> None:
    workshop.write(
        "tools/it.py",
        """
        import importlib.util, sys
        import orjson
        from covalt_toolset import get_context
        from pydantic import BaseModel

        class Row(BaseModel):
            name: str

        def run(rows: list[Row]) -> dict:
            context = get_context()
            context.path("rows.json").write_bytes(orjson.dumps([row.model_dump() for row in rows]))
            ours = [name for name in ("dulwich", "flask") if importlib.util.find_spec(name)]
            return {"prefix": sys.prefix, "ours": ours}
        """,
    )
    job = workshop.job(python=installed, level=level, args={"rows": [{"name": "a"}]}, warm=True)
    first, second = (run(job, pool=workshop.pool) for _ in range(2))

    assert first.error is None
    assert first.result == second.result == {"prefix": str(installed.parents[1]), "ours": []}
    assert (workshop.workspace / "rows.json").read_text() == '[{"name":"a"}]'


@pytest.mark.parametrize("level", HOLDING)
def test_a_tool_cannot_write_to_its_environment(
    workshop: Workshop, installed: Path, level: SandboxLevel
) -> None:
    body = """
        import orjson
        (Path(orjson.__file__).parent / "planted.py").write_text("print('planted')")
    """
    error = error_of(workshop.call(body, python=installed, level=level))

    assert error.message.startswith(("PermissionError", "OSError"))
    assert list(installed.parents[1].rglob("planted.py")) == []


@pytest.mark.rest
def test_an_unknown_package_is_reported_with_the_installers_message(empty: Path) -> None:
    with pytest.raises(CannotInstallError) as caught:
        environments.interpreter(["nowhere-to-be-found>=1"])

    assert "nowhere-to-be-found" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint == "correct python.dependencies; only wheels for this Python are taken"
    assert [path.suffix for path in empty.iterdir()] == [".lock"]


def test_an_index_that_does_not_answer_is_reported(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.delenv(name)
    address = "http://somebody:canary-password@127.0.0.1:9/simple"
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv("UV_INDEX_URL", address)
    told: list[str] = []

    with pytest.raises(CannotInstallError) as caught:
        environments.interpreter(["orjson"], report=told.append)

    assert "does not answer" in caught.value.hint
    assert "canary-password" not in f"{caught.value}{told}"
    assert [path.suffix for path in empty.iterdir()] == [".lock"]


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    "need",
    [
        *("--index-url=http://evil.example", "-r requirements.txt", "-e .", "./local.whl", "../x"),
        *("/tmp/local.whl", "http://evil.example/x.whl", "git+https://evil.example/x.git", "x y"),
        *("x@http://evil.example/x.whl", "x @ git+https://evil.example/x.git", "x --pre", ""),
        *("x[a] @ file:///tmp/x.whl", "x\n--pre"),
    ],
)
def test_what_is_no_requirement_never_reaches_the_installer(need: str) -> None:
    told: list[str] = []

    with pytest.raises(CannotInstallError, match="is not a requirement"):
        environments.interpreter(["orjson", need], report=told.append)

    assert told == []


def test_installing_runs_no_code_of_the_packages(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, canary = tmp_path / "evil-1.0", tmp_path / "it-ran"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(canary)!r}, 'w')\n")
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    with tarfile.open(tmp_path / "evil-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "evil-1.0")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))

    with pytest.raises(CannotInstallError):
        environments.interpreter(["evil"])

    assert not canary.exists()
    assert [path.suffix for path in empty.iterdir()] == [".lock"]


def test_a_cancelled_installation_leaves_nothing(empty: Path) -> None:
    cancel = threading.Event()

    with pytest.raises(InstallCancelledError):
        environments.interpreter(["orjson"], report=lambda _: cancel.set(), cancel=cancel)

    assert [path.suffix for path in empty.iterdir()] == [".lock"]


def test_what_a_killed_installation_left_is_cleared_away(empty: Path) -> None:
    key = environments._key(["nowhere-to-be-found"])
    (empty / f"{key}-0000").mkdir(parents=True)
    (empty / key).symlink_to(f"{key}-1111")  # to a deleted environment

    with pytest.raises(CannotInstallError):
        environments.interpreter(["nowhere-to-be-found"])

    assert sorted(path.name for path in empty.iterdir()) == [key, f"{key}.lock"]
