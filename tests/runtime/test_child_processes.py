"""Ending what is left below a process: whole families, however they hide, and nobody else's."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.runtime.in_sandbox import SOURCES, needs_proc

FAMILIES = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from covalt_git.runtime.processes import child_processes

child_processes.adopt_orphans()
ready, told = os.pipe()

def family(generations):
    # Each generation in a session of its own; the eldest end at once, so that orphans are made.
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if generations:
                family(generations - 1)
                if generations % 2:
                    os._exit(0)
            os.write(told, b".")
            time.sleep(60)
            os._exit(0)

kept = os.fork()
if kept == 0:
    if os.fork() == 0:
        os.write(told, b".")
        time.sleep(60)
    os.write(told, b".")
    time.sleep(60)
family(2)
for _ in range(2 + 3 + 27):  # the kept one and its child, grandparents, and children
    assert os.read(ready, 1)
before = os.sched_getscheduler(0)
child_processes.end_all_but({kept}, within_s=10)
left = [*child_processes.children(os.getpid())]
print(json.dumps({
    "left": left == [kept],
    "its_child": len([*child_processes.children(kept)]),
    "as_before": os.sched_getscheduler(0) == before,
}))
child_processes.end_all_but((), within_s=10)
print(json.dumps([*child_processes.children(os.getpid())]))
"""


@needs_proc
def test_families_end_whole_and_only_those_that_are_meant() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", FAMILIES, str(SOURCES)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"left": True, "its_child": 1, "as_before": True}
    assert second == []
