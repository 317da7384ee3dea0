"""How long a cold command takes, compared with ``python -c "import pydantic"``; and the memory of an idle server.

    python -m bench.start_up [--rounds N] [--json]

Whole processes, interleaved, in the project that ``covalt-git init`` makes, with a chat that has one
call.  A figure is the median of the rounds; the ratio is to the median of the import, lower is better.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = {
    "call": ("call", "c1", "app-builder:list_files"),
    "tool list": ("tool", "list"),
    "chat log": ("chat", "log", "c1"),
    "validate": ("validate",),
}
MUST = {"call": 7.0, "tool list": 4.0, "chat log": 4.0, "validate": 4.0}
PEER = (sys.executable, "-c", "import pydantic")


def command(root: Path, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "covalt_git", "-C", str(root), *args)


def run(*argv: str) -> float:
    """Run a process, and return how long it took in milliseconds."""
    began = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True, env=environment())
    return (time.perf_counter() - began) * 1000


def environment() -> dict[str, str]:
    """Return the environment in which compiled modules are kept, as they are once installed."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def make_project(root: Path) -> None:
    for args in (
        ("chat", "new", "--id", "c1"),
        ("call", "c1", "app-builder:write_file", "--arg", "path=a.txt", "--arg", "content=1"),
    ):
        run(*command(root, *args))


def idle_memory(root: Path) -> float:
    """Return the resident memory of a server that has answered one page, in MB."""
    server = subprocess.Popen(
        command(root, "serve", "--port", "0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )
    try:
        assert server.stdout is not None
        url = ""
        while not url:
            found = re.search(r"http://\S+", server.stdout.readline())
            url = found[0] if found else ""
        subprocess.run(("curl", "-sL", "-c", os.devnull, url), check=True, capture_output=True)
        time.sleep(1)
        status = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii")
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        run(sys.executable, "-m", "covalt_git", "init", str(root))
        make_project(root)
        taken: dict[str, list[float]] = {name: [] for name in ("import pydantic", *COMMANDS)}
        for _ in range(args.rounds):
            taken["import pydantic"].append(run(*PEER))
            for name, words in COMMANDS.items():
                taken[name].append(run(*command(root, *words)))
        memory = idle_memory(root)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    peer = medians["import pydantic"]
    if args.json:
        print(json.dumps({"ms": medians, "idle_serve_mb": memory}, indent=2))
        return
    print(f"import pydantic   {peer:7.1f} ms")
    for name, must in MUST.items():
        ratio = medians[name] / peer
        reached = "yes" if ratio <= must else "NO"
        print(f"{name:16}  {medians[name]:7.1f} ms  {ratio:5.2f} x (must {must:g}) {reached}")
    print(f"idle serve        {memory:7.1f} MB (goal 100)")


if __name__ == "__main__":
    main()
