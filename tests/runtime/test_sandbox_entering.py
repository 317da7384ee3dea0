"""Entering the sandbox: when it is refused, and what a tool finds inside."""

import os
import threading
import time
from pathlib import Path

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.sandbox import system_calls
from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.policy import Policy, SandboxError
from covalt_git.runtime.sandbox.trial import attempt
from tests.runtime.conftest import Workshop, error_of
from tests.runtime.in_sandbox import HOLDING, LEVELS, needs_full, needs_landlock

every_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    workspace, toolset, scratch = (tmp_path / name for name in ("workspace", "toolset", "scratch"))
    for folder in (workspace, toolset, scratch):
        folder.mkdir()
    return Policy(workspace, toolset, (), scratch)


@every_level
def test_descriptor_on_a_folder_is_refused(policy: Policy, level: SandboxLevel) -> None:
    folder = os.open("/", os.O_RDONLY)
    try:
        verdict, said = attempt(policy, level, lambda: "entered")
    finally:
        os.close(folder)

    assert verdict == "broken"
    assert said.startswith("the sandbox could not be entered: descriptor ")


@every_level
def test_process_with_threads_is_refused(policy: Policy, level: SandboxLevel) -> None:
    report, end = os.pipe()
    if (child := os.fork()) == 0:
        # Other tests of this process may leave folders open, which are refused first.
        system_calls.close_all_but(end)
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        try:
            enter(policy, level)
        except SandboxError as error:
            os.write(end, error.message.encode())
        finally:
            os._exit(0)
    os.close(end)
    os.waitpid(child, 0)
    with os.fdopen(report) as file:
        said = file.read()

    assert said == "the sandbox could not be entered: this process has more than one thread"


@every_level
def test_end_of_a_tool_is_reported(workshop: Workshop, level: SandboxLevel) -> None:
    error = error_of(workshop.call("os.abort()", level=level))

    assert error.message == "its process was ended by SIGABRT"


@every_level
def test_tool_is_in_its_workspace_with_a_home_of_its_own(
    workshop: Workshop, level: SandboxLevel
) -> None:
    outcome = workshop.call(
        """
        import tempfile
        Path("written").write_text("by the tool")
        Path.home().joinpath("file").touch()
        return [os.getcwd(), os.environ["HOME"] == os.environ["TMPDIR"] == tempfile.gettempdir()]
        """,
        level=level,
    )

    assert outcome.result == [str(workshop.workspace), True]
    written = workshop.workspace / "written"
    assert written.read_text() == "by the tool"
    assert (written.stat().st_uid, written.stat().st_gid) == (os.getuid(), os.getgid())


@every_level
def test_a_tool_learns_the_name_of_the_time_zone(workshop: Workshop, level: SandboxLevel) -> None:
    def zone() -> list[str]:
        timezone = Path("/etc/timezone")
        name = timezone.read_text(encoding="utf-8") if timezone.exists() else ""
        return [name, str(Path("/etc/localtime").resolve())]

    outcome = workshop.call(
        """
        timezone = Path("/etc/timezone")
        name = timezone.read_text(encoding="utf-8") if timezone.exists() else ""
        return [name, str(Path("/etc/localtime").resolve())]
        """,
        level=level,
    )

    assert outcome.result == zone()


@needs_full
def test_tool_at_full_sees_one_user_and_only_its_own_processes(workshop: Workshop) -> None:
    outcome = workshop.call(
        """
        import pwd, socket
        pids = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())
        return [pwd.getpwuid(os.getuid()).pw_name, socket.gethostname(), pids, os.getpid()]
        """,
        level="full",
    )

    assert outcome.result == ["tool", "sandbox", [1, 2], 2]


@needs_landlock
@pytest.mark.parametrize("leave", ["os.setsid()", "os.setpgid(0, 0)"])
def test_tool_at_landlock_cannot_leave_its_group(workshop: Workshop, leave: str) -> None:
    body = f"""
        if os.fork() == 0:
            try: {leave}
            except PermissionError: os._exit(7)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.wait()[1])
    """

    assert workshop.call(body, level="landlock").result == 7


@pytest.mark.parametrize("level", HOLDING)
def test_programs_copy_unpack_and_commit(workshop: Workshop, level: SandboxLevel) -> None:
    """The filter of system calls must not break cp -p, tar, shutil and git, which set modes and create files."""
    outcome = workshop.call(
        """
        import shutil, tarfile
        os.umask(0o022)
        os.mkdir("a")
        Path("a/program").write_text("x")
        os.chmod("a/program", 0o755)
        os.mkdir("a/sticky", 0o1777)
        os.close(os.open("a/program", os.O_RDONLY, 0o6777))  # the mode is not used
        shutil.copytree("a", "b")
        with tarfile.open("a.tar", "w") as archive:
            archive.add("a")
        env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null")
        for line in (
            "cp -pr a c",
            "mkdir d",
            "tar -xpf a.tar -C d",
            "git init -q e",
            "git -C e add .",
            "git -C e -c user.name=a -c user.email=a commit -q --allow-empty -m a",
        ):
            subprocess.run(line.split(), env=env, check=True)
        return [Path(f"{copy}/program").read_text() for copy in ("b", "c", "d/a")]
        """,
        level=level,
    )

    assert outcome.result == ["x", "x", "x"], outcome.output
