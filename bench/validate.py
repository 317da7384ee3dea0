"""How long ``covalt-git validate`` and ``--help`` take, whole processes, compared with others, in one run.

Ours checks 300 toolsets with their Python and pages; the others hold the same 300 ``toolset.yaml`` of 68
lines to the JSON Schema of our model and check nothing else.  Rounds alternate, so that a busy machine is
busy for each.  The last row validates one toolset of 1,500 tools, without its process's start and imports, compared with
the time in which PyYAML's ``CSafeLoader`` loads its YAML.  Goal: 1.5 of it.

    python -m bench.validate [rounds] [check-jsonschema] [ajv]

The peers are not ours to install: give the paths of their programs, made in a folder elsewhere, with
``pip install check-jsonschema`` and ``npm install ajv-cli``; one that is left out or ``-`` has no row.  ``--help`` has a program that
says hello with click compared with it, and five times the rounds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import yaml

from bench.index_sync import HEAD, PYTHON, TOOL, put_toolsets
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.operations.context import Context
from covalt_git.operations.validation import validate
from covalt_git.project import Project

FILES = 300
TOOLS = 1500
HELLO = """\
import click

@click.command()
def hello():
    "Say hello."

hello()
"""


def main(rounds: int, check_jsonschema: str, ajv: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = _project(root)
        schema = root / "schema.json"
        schema.write_text(json.dumps(ToolsetManifest.model_json_schema()), encoding="utf-8")
        commands = {"covalt-git validate": [sys.executable, "-m", "covalt_git", "validate"]}
        if check_jsonschema != "-":
            commands["check-jsonschema"] = [check_jsonschema, "--schemafile", str(schema), *files]
        if ajv != "-":
            every = str(root / "toolsets/*/toolset.yaml")
            commands["ajv-cli"] = [
                ajv, "validate", "--spec=draft2020", "--strict=false", "-s", str(schema), "-d", every
            ]  # fmt: skip
        print(f"{FILES} files, whole processes, median of {rounds} rounds (least)")
        _compare(commands, rounds, root)
        program = str(Path(sysconfig.get_path("scripts")) / "covalt-git")
        hello = [sys.executable, "-c", HELLO, "--help"]
        _compare({"covalt-git --help": [program, "--help"], "click": hello}, 5 * rounds, root)
        _large_toolset(root / "large", rounds)


def _large_toolset(root: Path, rounds: int) -> None:
    """Print how long validating one large toolset takes, as a part of the time of loading its YAML."""
    folder = root / "toolsets" / "large"
    (folder / "tools").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    text = HEAD.format(id="large", name="Large", number=1, word="amber")
    code = ""
    for number in range(TOOLS):
        verb = f"read_{number}"
        text += TOOL.format(verb=verb, title=f"Read {number}", word="amber", asks="false")
        code += PYTHON.format(verb=verb, title="Read")
    (folder / "tools" / "records.py").write_text(code, encoding="utf-8")
    ours, theirs = [], []
    for number in range(rounds):
        (folder / "toolset.yaml").write_text(f"# {number}\n{text}", encoding="utf-8")  # not cached
        started = time.perf_counter()
        with Context(root, lambda: Project.open(root)) as context:
            found = validate(context)
        ours.append(time.perf_counter() - started)
        assert (found.tools, found.problems) == (TOOLS, ()), found.problems[:3]
        started = time.perf_counter()
        yaml.load(text, yaml.CSafeLoader)
        theirs.append(time.perf_counter() - started)
    loaded, validated = statistics.median(theirs), statistics.median(ours)
    print(
        f"validate, {TOOLS} tools {validated * 1000:7.0f} ms, {validated / loaded:.2f} of CSafeLoader"
    )


def _compare(commands: dict[str, list[str]], rounds: int, root: Path) -> None:
    """Run them in turns, ours first, and print how long each takes and how many times ours is of it."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, argv in commands.items():
            times[name].append(_timed(argv, root))
    ours = statistics.median(next(iter(times.values())))
    for name, taken in times.items():
        median = statistics.median(taken)
        print(
            f"{name:20} {median * 1000:7.0f} ms ({min(taken) * 1000:.0f}),"
            f" ours is {ours / median:.2f} of it"
        )


def _project(root: Path) -> list[str]:
    put_toolsets(root, FILES)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    return [str(file) for file in sorted(root.glob("toolsets/*/toolset.yaml"))]


def _timed(argv: list[str], root: Path) -> float:
    started = time.perf_counter()
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{argv[0]} found problems: {done.stdout[-500:]}{done.stderr[-500:]}")
    return taken


if __name__ == "__main__":
    given = [*sys.argv[1:], *["3", "-", "-"][len(sys.argv) - 1 :]]
    main(int(given[0]), given[1], given[2])
