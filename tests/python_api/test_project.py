"""Embedding a project in Python."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import covalt_git
from covalt_git import Chat, CovaltError, Project, open_project
from covalt_git.python_api.chat import CallResult
from covalt_git.python_api.session import Session
from tests.api_client import configure
from tests.toolsets.projects import REPOSITORY


def write(project: Project, chat_id: str, path: str, content: str) -> CallResult:
    args = {"path": path, "content": content}
    return project.chat(chat_id).call("app-builder:write_file", args)


def test_importing_it_imports_no_other_package() -> None:
    code = (
        "import sys; before = {*sys.modules}; import covalt_git; "
        "names = {name.partition('.')[0] for name in {*sys.modules} - before}; "
        "print(*names - {*sys.stdlib_module_names})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )

    assert done.stdout == "covalt_git\n"


def test_the_public_names_are_these() -> None:
    assert covalt_git.__all__ == [
        *("CallResult", "Chat", "CovaltError", "FinishedResult", "PendingResult", "Project"),
        "open_project",
    ]
    for name in {*covalt_git.__all__} - {"CallResult"}:
        assert getattr(covalt_git, name).__name__ == name
    assert covalt_git.CallResult == covalt_git.FinishedResult | covalt_git.PendingResult
    with pytest.raises(AttributeError):
        _ = covalt_git.anything_else


def test_a_project_has_tools_toolsets_and_chats(root: Path) -> None:
    with open_project(root / "toolsets") as project:
        project.create_chat("c1", title="First")

        assert project.root == root
        assert "app-builder:write_file" in [tool.tool_id for tool in project.tools]
        assert "data-lab" in [toolset.id for toolset in project.toolsets]
        assert [chat.id for chat in project.chats] == ["c1"]
        assert project.search_tools("write a file")[0].tool_id == "app-builder:write_file"


def test_a_role_sees_its_tools_only(root: Path) -> None:
    configure(root, 'roles: {guest: {allow: ["data-lab.*"]}}')
    with open_project(root, role="guest") as project:
        assert {tool.toolset_id for tool in project.tools} == {"data-lab"}
        project.create_chat("c1")
        with pytest.raises(CovaltError) as refused:
            write(project, "c1", "a.txt", "1")
        assert refused.value.code == "unknown_tool"


def test_a_pending_call_runs_when_it_is_approved(project: Project, chat: Chat) -> None:
    pending = chat.call("app-builder:run_command", {"command": "touch a.txt"})
    assert (pending.status, pending.commit, chat.log()) == ("pending", None, ())
    approved = project.approve(str(pending.execution_id))

    assert (approved.status, approved.files_changed) == ("success", ("a.txt",))
    assert chat.log()[0].id == approved.commit


def test_a_closed_project_leaves_no_process_and_does_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "_open", 0)  # other tests of this process may leave projects open
    open_project(
        root
    ).close()  # ends what other tests of this process have left, which the call would use
    before = children()
    project = open_project(root)
    project.create_chat("c1")
    write(project, "c1", "a.txt", "1")
    assert children() - before
    project.close()
    project.close()

    assert children() - before == set()
    with pytest.raises(CovaltError, match="is closed") as refused:
        project.create_chat("c2")
    assert refused.value.code == "closed_project"


def test_a_chat_is_opened_or_created(root: Path) -> None:
    with open_project(root) as project:
        with pytest.raises(CovaltError) as refused:
            project.open_chat("c1")
        assert refused.value.code == "unknown_chat"
        assert project.open_chat("c1", create=True, title="First").id == "c1"
        assert project.open_chat("c1", create=True).id == "c1"
        assert len(project.chats) == 1
        with pytest.raises(CovaltError):
            project.open_chat("no/id", create=True)


def test_the_errors_of_a_missing_folder_are_true(root: Path, tmp_path: Path) -> None:
    with pytest.raises(CovaltError, match="does not exist"):
        open_project(tmp_path / "nothing")
    moved = tmp_path / "moved"
    with open_project(root) as project:
        chat = project.create_chat("c1")
        root.rename(moved)
        for use in (lambda: project.tools, chat.log, project.validate):
            with pytest.raises(CovaltError, match="does not exist any more") as refused:
                use()
            assert refused.value.code == "not_a_project"


def test_the_example_of_the_page_has_types(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/reference/python-api.md").read_text(encoding="utf-8")
    call = next(block for block in page.split("```python\n")[1:] if "PendingResult" in block)
    program = tmp_path / "example.py"
    program.write_text(
        "from covalt_git import Chat, FinishedResult, PendingResult, Project\n\n\n"
        "def write(project: Project, chat: Chat) -> None:\n"
        + "".join(
            f"    {line}\n"
            for line in call.partition("```")[0].splitlines()
            if "import" not in line
        )
    )
    # With the cache of `make check`: reading our modules anew takes most of the time.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(program)],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )

    assert done.returncode == 0, done.stdout


def children() -> set[str]:
    """Return the ids of the processes that this one has started, without that of ``ps``."""
    done = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.split()[0] for line in done.stdout.splitlines() if line.split()[1] != "ps"}


def test_many_threads_call_one_chat_and_nothing_is_lost(root: Path) -> None:
    results: list[CallResult] = []

    def call(number: int) -> None:
        results.append(write(project, "c1", f"{number}.txt", str(number)))

    with open_project(root) as project:
        chat = project.create_chat("c1")
        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [one.status for one in results] == ["success"] * 8
        assert len({one.commit for one in results}) == 8
        assert {file.path for file in chat.files()} == {f"{number}.txt" for number in range(8)}
        assert len(chat.log()) == 8
