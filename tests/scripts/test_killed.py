"""Scripts whose processes are killed: each call is made once, and one whose outcome is unknown says so."""

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from covalt_git.names import new_id
from tests.command import Command
from tests.examples import one_in
from tests.scripts.conftest import Scripts

SOURCE = """\
results = []
for number in range(5):
    try:
        tools.marks.mark(name='m' + str(number))
        results.append('ok')
    except Exception as error:
        results.append(str(error).split(':')[0])
results
"""


def start(root: Path, *args: str) -> Command:
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        return Command(["-C", str(root), "script", *args], [nothing.fileno()] * 3)


@pytest.mark.parametrize("seed", one_in(3, range(3)))
def test_each_call_of_a_killed_script_is_made_once(
    scripts: Scripts, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    file = tmp_path / "script.py"
    file.write_text(SOURCE)
    script_id = new_id()
    args: tuple[str, ...] = ("run", str(file), "--chat", "c1", "--id", script_id)
    for _ in range(4):
        process = start(scripts.root, *args)
        if not process.ends_within(chance.uniform(0.05, 0.6)):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if scripts.refs():
            args = ("continue", script_id)
    if scripts.refs():
        scripts.operate("continue_script", script_id=script_id)
    else:
        start(scripts.root, *args).wait()  # it has ended, or never began

    results = scripts.show({"id": script_id})["result"]["value"]
    assert len(results) == 5
    for number, result in enumerate(results):
        count = scripts.marks.count(f"m{number}")
        assert count == 1 if result == "ok" else (result, count <= 1) == ("interrupted", True)
