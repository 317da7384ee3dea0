"""Decisions of a process that is killed: the old state or the new one, whole, at every step."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from covalt_git.files.toolsets import read_toolset
from covalt_git.installs.decisions import grant_process, set_enabled
from tests.installs.test_decisions_merged import MANIFEST

if TYPE_CHECKING:
    from pathlib import Path

KILLED = """
import json, os, signal, sys
from pathlib import Path
from covalt_git.installs.decisions import grant_network, grant_process, revoke_all, set_enabled
from covalt_git.installs.overriding import override_tool

root = Path(sys.argv[1])
file = root / "toolsets/state/demo.yaml"
DECISIONS = {
    "toolset enable": lambda: set_enabled(root, "demo", enabled=True),
    "tool override": lambda: override_tool(root, "demo:a", {"name_override": "A" * 150}),
    "grant add": lambda: grant_network(root, "demo", ["a.example"], by="x"),
    "grant revoke": lambda: revoke_all(root, "demo"),
}
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.chmod"}

def killed_at(step, decide):
    left = step
    def count(event, args):
        nonlocal left
        writes = event in WRITES or (event == "open" and isinstance(args[2], int) and args[2] & 3)
        if writes:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if child == 0:
        sys.addaudithook(count)
        decide()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

old = file.read_bytes()
ends = {}
for name, decide in DECISIONS.items():
    found = []
    for step in range(1, 100):
        file.write_bytes(old)
        code = killed_at(step, decide)
        found.append([code, file.read_text() if file.exists() else ""])
        if code == 0:
            break
    ends[name] = found
print(json.dumps([old.decode(), ends]))
"""


def test_a_decision_is_made_or_not_wherever_it_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "toolsets/demo"
    folder.mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "toolset.yaml").write_text(MANIFEST.replace("NAME", "demo"), encoding="utf-8")
    grant_process(tmp_path, "demo", "demo-server", by="x")
    set_enabled(tmp_path, "demo", enabled=False)

    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    old, ends = json.loads(done.stdout)
    for name, found in ends.items():
        codes = [code for code, _ in found]
        assert codes[-1] == 0, name
        assert codes[:-1] == [-9] * (len(codes) - 1), name
        assert len(codes) > 2, name
        new = [text for _, text in found if text != old]
        assert new, name
        # Times differ from one try to the next; whatever stands there says all that was decided.
        assert {len(text) for text in new} == {len(new[-1])}, name
    (tmp_path / "toolsets/state/demo.yaml").write_text(ends["grant add"][-1][1], encoding="utf-8")
    state = read_toolset(tmp_path, "demo")
    assert state.problems == ()
    assert sorted(state.state.grants) == ["network", "process-demo-server"]
