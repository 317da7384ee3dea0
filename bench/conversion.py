"""How long ``covalt-git convert`` takes for a CJSON document of 10,000 tools, and its peak memory, whole processes.

It is compared with a Python process that parses the same JSON and writes it with ``indent=2``, in the same
rounds.  Goal: 3 s and 300 MiB.

    python -m bench.conversion [rounds]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TOOLS = 10_000
SCHEMA = "https://schema.cjson.dev/0/toolsets/cjson-toolsets-0.1.0-SNAPSHOT.schema.json"
COPY = "import json, sys; print(json.dumps(json.load(open(sys.argv[1])), indent=2))"


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "big.json"), Path(folder, "out.json")
        source.write_text(json.dumps(document(), indent=1), encoding="utf-8")
        convert = [sys.executable, "-m", "covalt_git", "convert", str(source), "-o", str(target)]
        commands = {
            f"{name}, {TOOLS:,} tools": [*convert, "--force", "--to", name]
            for name in ("cjson", "mcp-tools", "openai")
        }
        commands["json.load and json.dumps"] = [sys.executable, "-c", COPY, str(source)]
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                found[name].append(measured(command))
    for name, rows in found.items():
        seconds, mebibytes = (statistics.median(one) for one in zip(*rows, strict=True))
        print(f"{name:28} {seconds:6.2f} s  {mebibytes:6.0f} MiB")


def document() -> Any:
    properties = {
        "path": {"type": "string", "description": "A path."},
        "count": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    tools = [
        {"name": f"tool_{at}", "summary": f"Do {at}.", "argsSchema": schema, "enabled": True}
        for at in range(TOOLS)
    ]
    server = {"url": "https://api.example.com/v1"}
    return {
        "schema": SCHEMA,
        "toolsets": [{"id": "big", "kind": "uri", "server": server, "tools": tools}],
    }


def measured(command: list[str]) -> tuple[float, float]:
    """Return the seconds and the peak memory in MiB of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - start, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
