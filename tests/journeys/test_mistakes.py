"""Tools that misbehave: each fails its own call, and the chat works on."""

from __future__ import annotations

from pathlib import Path

from covalt_git.runtime import sandbox_levels
from tests.journeys.terminal import Terminal

BODIES = {
    'raise ValueError("no such row")': "tool_raised",
    "import time; time.sleep(1000)": "limit_time",
    "import sys\n    while True: sys.stdout.write('x' * 100000)": "limit_output",
    'return {"x": float("nan")}': "bad_result",
    "import shutil; shutil.rmtree(workspace)": (
        "workspace_deleted" if sandbox_levels.level() == "process" else "tool_raised"
    ),
    "import os; os.kill(os.getpid(), 9)": "tool_died",
}


def test_a_tool_that_misbehaves_fails_its_call_and_the_chat_works_on(project: Terminal) -> None:
    _write_tools(project.folder, [*BODIES])
    project.covalt("chat", "new", "--id", "c1")
    project.covalt("chat", "upload", "c1", "covalt.yaml")

    for number, code in enumerate(BODIES.values()):
        call = project.json("call", "c1", f"bad:run_{number}", code=1)
        assert (call["status"], call["error"].partition(":")[0]) == ("error", code)
        last = project.json("chat", "log", "c1", "-n", "1")["manifests"][0]
        assert last["source_ref"] == call["id"]
    args = '{"path": "a.txt", "content": "a"}'
    assert project.json("call", "c1", "app-builder:write_file", args)["status"] == "success"
    assert project.git("-C", "data/chats/c1/store.git", "fsck", "--strict") == ""


def _write_tools(root: Path, bodies: list[str]) -> None:
    tools = root / "toolsets/bad/tools"
    tools.mkdir(parents=True)
    functions = (f"def run_{n}(workspace: Path):\n    {body}\n" for n, body in enumerate(bodies))
    (tools / "run.py").write_text(
        "\n\n".join(["from pathlib import Path\n", *functions]), encoding="utf-8"
    )
    limits = "limits: {timeout_s: 2, output_mb: 1}"
    lines = (
        f"- {{id: run_{n}, entrypoint: 'tools.run:run_{n}', {limits}}}\n"
        for n in range(len(bodies))
    )
    (root / "toolsets/bad/toolset.yaml").write_text(
        f"id: bad\nname: Bad\nversion: '1'\ntools:\n{''.join(lines)}", encoding="utf-8"
    )
