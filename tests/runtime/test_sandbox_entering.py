"""Entering the policy: which processes return or wait, the environment inside, and the cleanup."""

from __future__ import annotations

import os

import pytest

from tests.runtime.in_sandbox import (
    HOLDING,
    LEVELS,
    Yard,
    needs_full,
    needs_landlock,
    programs,
    yard,
)
from tests.settling import until

__all__ = ["yard"]

every_level = pytest.mark.parametrize("level", LEVELS)
walled = pytest.mark.parametrize("level", HOLDING)


@every_level
@pytest.mark.parametrize(
    ("ending", "code"),
    [("os._exit(7)", 7), ("os.kill(os.getpid(), signal.SIGKILL)", -9), ("os.abort()", -6)],
)
def test_caller_ends_as_the_tool_ended(yard: Yard, level: str, ending: str, code: int) -> None:
    assert yard.run(level, ending).code == code


@walled
def test_nothing_is_left_when_the_caller_is_killed(yard: Yard, level: str) -> None:
    name = f"left-{yard.folder.name}-{level}"
    done = yard.run(
        level,
        f"""
        import subprocess
        subprocess.Popen(["sh", "-c", "sleep 60; true {name}"])
        Path("ready").touch()
        time.sleep(60)
        """,
        meanwhile="""
        while not (policy.workspace / "ready").exists():
            time.sleep(0.01)
        os.killpg(pid, signal.SIGKILL)
        """,
    )

    assert done.code == -9
    until(lambda: not programs(name))


@every_level
def test_parent_s_death_still_ends_the_tool(yard: Yard, level: str) -> None:
    name = f"orphan-{yard.folder.name}-{level}"
    done = yard.run(
        level,
        "pass",
        before=f"""
        import ctypes
        between = os.fork()
        if between == 0:
            inner = os.fork()
            if inner == 0:
                os.setsid()
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)
                enter(policy, asked["level"])
                Path("ready").touch()
                os.execvp("sleep", ["{name}", "60"])
            while not (policy.workspace / "ready").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(between, 0)
        """,
    )

    assert done.code == 0
    until(lambda: not programs(name))


@every_level
def test_descriptor_on_a_folder_is_refused(yard: Yard, level: str) -> None:
    done = yard.run(level, "pass", before="os.open('/', os.O_RDONLY)")

    assert done.code == 90
    assert done.output.startswith("the sandbox could not be entered: descriptor ")


@every_level
def test_process_with_threads_is_refused(yard: Yard, level: str) -> None:
    done = yard.run(
        level,
        "pass",
        before="""
        import threading
        def begin(pid=os.getpid()):
            if os.getpid() != pid:
                threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        os.register_at_fork(after_in_child=begin)
        """,
    )

    assert done.code == 90
    assert (
        done.output == "the sandbox could not be entered: this process has more than one thread\n"
    )


@every_level
def test_tool_is_in_its_workspace_with_a_home_of_its_own(yard: Yard, level: str) -> None:
    done = yard.run(
        level,
        """
        import tempfile
        Path("written").write_text("by the tool")
        with tempfile.NamedTemporaryFile(dir=os.environ["HOME"], delete=False) as file:
            file.write(b"1")
        print(os.getcwd(), os.environ["HOME"] == os.environ["TMPDIR"] == tempfile.gettempdir())
        """,
    )

    assert done.output == f"{yard.workspace} True\n"
    written = yard.workspace / "written"
    assert written.read_text() == "by the tool"
    assert (written.stat().st_uid, written.stat().st_gid) == (os.getuid(), os.getgid())
    assert len(list((yard.folder / "scratch").glob("tmp*"))) == 1


@needs_full
def test_tool_at_full_sees_one_user_and_only_its_own_processes(yard: Yard) -> None:
    done = yard.run(
        "full",
        """
        import getpass, pwd, socket
        print(os.getuid(), pwd.getpwuid(os.getuid()).pw_name, socket.gethostname())
        print(sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()), os.getpid())
        """,
    )

    assert done.output == "1000 tool sandbox\n[1, 2] 2\n"


@needs_landlock
def test_tool_at_landlock_cannot_leave_its_group(yard: Yard) -> None:
    done = yard.run(
        "landlock",
        """
        child = os.fork()
        if child == 0:
            for leave in (os.setsid, lambda: os.setpgid(0, 0)):
                try:
                    leave()
                    print("left", flush=True)
                except PermissionError:
                    print("refused", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        """,
    )

    assert done.output == "refused\nrefused\n"
