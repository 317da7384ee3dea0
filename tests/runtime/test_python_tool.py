"""A tool's surroundings: what it sees, what it can import, and how what it says comes back."""

import os
import sys
from pathlib import Path

import pytest

from covalt_git.runtime.python_tool import run
from covalt_git.text.printed import MOST_STORED, size_of
from tests.runtime.conftest import Workshop

CANARY = "sk-live-canary-9c1f"

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into Linux's /proc")


@on_linux
def test_no_variable_of_the_parent_reaches_a_tool(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_KEY", CANARY)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/{CANARY}")

    outcome = workshop.run("""
        import os, subprocess
        from pathlib import Path

        def run() -> dict:
            return {
                "own": sorted(os.environ),
                "kernel": Path("/proc/self/environ").read_text(),
                "child": subprocess.run(["env"], capture_output=True, text=True).stdout,
            }
    """)

    ours = ["HOME", "LANG", "LC_ALL", "PATH", "PYTHONPYCACHEPREFIX", "TMPDIR"]
    assert outcome.result["own"] == ours
    assert CANARY not in str(outcome)


@pytest.mark.requirement("covalt-0.python")
def test_standard_input_is_empty_and_the_folder_is_the_workspace(workshop: Workshop) -> None:
    outcome = workshop.run("""
        import os, sys

        def run() -> list[str]:
            return [sys.stdin.read(), os.getcwd()]
    """)

    assert outcome.result == ["", str(workshop.workspace)]


@on_linux
def test_no_open_file_of_the_parent_is_inherited(workshop: Workshop, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(CANARY)
    handle = os.open(secret, os.O_RDONLY)
    os.set_inheritable(handle, True)
    try:
        outcome = workshop.run("""
            import os

            def run() -> list[str]:
                found = []
                for name in os.listdir("/proc/self/fd"):
                    try:
                        found.append(os.readlink(f"/proc/self/fd/{name}"))
                    except OSError:
                        pass
                return found
        """)
    finally:
        os.close(handle)

    kinds = sorted(target.partition(":")[0] for target in outcome.result)
    assert str(secret) not in outcome.result
    assert kinds == ["/dev/null", "pipe", "pipe", "socket"]


@pytest.mark.parametrize(
    ("files", "entrypoint"),
    [
        pytest.param(
            {"annotated_types/__init__.py": "", "annotated_types/it.py": None},
            "annotated_types.it:run",
            id="installed-package",
        ),
        pytest.param({"flask/it.py": None}, "flask.it:run", id="installed-without-init"),
        pytest.param({"flask.py": None}, "flask:run", id="installed-single-module"),
        pytest.param({"json/it.py": None}, "json.it:run", id="standard-library"),
        pytest.param({"tests/__init__.py": "", "tests/it.py": None}, "tests.it:run", id="tests"),
    ],
)
def test_package_of_the_toolset_wins_over_an_installed_one_of_its_name(
    workshop: Workshop, files: dict[str, str | None], entrypoint: str
) -> None:
    for path, source in files.items():
        workshop.write(path, "def run(): return 'mine'" if source is None else source)

    assert run(workshop.job(entrypoint), pool=workshop.pool).result == "mine"


def test_a_tool_finds_pydantic_and_no_other_package_of_our_own_environment(
    workshop: Workshop,
) -> None:
    outcome = workshop.run("""
        from importlib import import_module

        def found(name: str) -> bool:
            try:
                import_module(name)
            except ModuleNotFoundError:
                return False
            return True

        def run() -> dict[str, bool]:
            return {name: found(name) for name in ("pydantic.networks", "flask", "dulwich", "mcp")}
    """)

    assert outcome.result == {
        "pydantic.networks": True,
        "flask": False,
        "dulwich": False,
        "mcp": False,
    }


def test_both_streams_are_recorded_in_order(workshop: Workshop) -> None:
    outcome = workshop.run("""
        import os, subprocess, sys
        print("at import")

        def run() -> None:
            print("one")
            print("two", file=sys.stderr)
            sys.stdout.write("three, ")
            os.write(2, b"four, ")
            subprocess.run(["echo", "five"])
            print("six")
    """)

    assert outcome.output == "at import\none\ntwo\nthree, four, five\nsix\n"


def test_long_output_is_capped_with_a_note(workshop: Workshop) -> None:
    outcome = workshop.run(
        "def run():\n    for at in range(200_000):\n        print(at)\n    return 'done'"
    )

    assert outcome.result == "done"
    assert outcome.output.startswith("0\n1\n2\n")
    assert outcome.output.endswith("199998\n199999\n")
    size = size_of(outcome.output)
    assert (size.lines, size.size) == (200_000, 1_288_890)
    assert 0 < size.stored_lines == outcome.output.count("\n") - 1
    assert MOST_STORED - 20 < size.stored_size <= MOST_STORED


def test_output_is_text_whatever_bytes_were_printed(workshop: Workshop) -> None:
    outcome = workshop.run("""
        import os

        def run() -> str:
            print("Grüße 👋 \\x00 \\x1b[31m")
            os.write(1, b"\\xff\\xfe\\n")
            return "Ünïcode 👋"
    """)

    assert outcome.result == "Ünïcode 👋"
    assert outcome.output == "Grüße 👋 \x00 \x1b[31m\n\ufffd\ufffd\n"
