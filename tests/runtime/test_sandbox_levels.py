"""Which levels a machine has, and what it says where one is missing."""

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.pool import NoWorkerError, SandboxPool
from tests.runtime.in_sandbox import HOLDING, SOURCES, needs_full, needs_groups, needs_landlock

ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from covalt_git.runtime import sandbox_levels
print(json.dumps([sandbox_levels.level(), [one._asdict() for one in sandbox_levels.levels()]]))
"""
DOCKER = """
import sys
sys.path.insert(0, sys.argv[1])
from covalt_git.runtime.sandbox import seccomp, system_calls
closed = "unshare setns mount umount2 pivot_root open_tree move_mount fsopen fsmount mount_setattr"
rules = tuple(seccomp.Rule(name) for name in closed.split())
rules += (seccomp.Rule("clone", tests=(seccomp.Test(0, "any bit of", seccomp.NAMESPACES),)),)
seccomp.load(seccomp.program(rules, system_calls.MACHINE))
"""


def found(*argv: str) -> Any:
    """Return the level and the levels that a program prints."""
    env = {"PATH": os.environ["PATH"]}
    return json.loads(subprocess.check_output([*argv, str(SOURCES)], env=env))


@needs_groups
@needs_landlock
def test_root_without_namespaces_but_with_control_groups_has_level_landlock() -> None:
    """As in a container with Docker's default seccomp profile and a writable cgroup."""
    assert found(sys.executable, "-I", "-c", DOCKER + ASK)[0] == "landlock"


@needs_full
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs util-linux")
def test_closed_user_namespaces_are_named_with_what_opens_them() -> None:
    # In a user namespace of its own a process may close them for itself and all below.
    close = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    asking = [sys.executable, "-I", "-c", ASK]
    level, levels = found("unshare", "-Ur", "sh", "-c", close, "sh", *asking)

    assert level != "full"
    assert not levels[0]["here"]
    assert "make a user namespace" in levels[0]["why"]
    assert levels[0]["hint"] == "`sudo sysctl user.max_user_namespaces=15000` opens them"


def test_levels_that_could_not_be_tried_are_an_error_and_not_a_weaker_level() -> None:
    pool = SandboxPool()
    try:
        killed = pool.start()
        killed.kill()

        with pytest.raises(NoWorkerError):
            killed.try_level("full")()

        levels: tuple[SandboxLevel, ...] = ("full", "landlock", "seatbelt")
        available = {level for level in levels if not pool.start().try_level(level)()}
    finally:
        pool.close()
    assert available == {*HOLDING}
