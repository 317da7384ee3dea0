"""``covalt-git source``: what servers give is shown in full, and accepted by whoever saw it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.toolsets.toolset import read_toolset
from tests.sources.test_refresh import LIST, READ, READ_FILE, WIPE, lock_text, offer, root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Covalt = Callable[..., tuple[int, str]]

__all__ = ["root"]


def answer(said: str) -> Any:
    """Return the JSON that was printed, before what was said on the error stream."""
    return json.JSONDecoder().raw_decode(said)[0]


def test_the_tools_of_a_server_from_the_first_look_to_a_change(root: Path, covalt: Covalt) -> None:
    assert covalt("source", "list")[1].splitlines()[1].split() == ["gear/disk", *"-----", "never"]

    code, said = covalt("source", "refresh")
    assert code == 1
    assert f"+ disk:{READ_FILE} is new" in said
    assert "    + Nothing else." in said
    assert "hint: covalt-git source accept gear/disk" in said
    assert f"disk:{READ_FILE} (new)" in covalt("tool", "list")[1]

    code, said = covalt("source", "accept", "gear/disk", READ_FILE)
    assert (code, said) == (0, f"accepted disk:{READ_FILE}\n")
    assert covalt("source", "list")[1].splitlines()[1].split() == [*("gear/disk", "3", "1", "2"), "-", "-", "yes"]  # fmt: skip
    assert f"disk:{READ_FILE} (new)" not in covalt("tool", "list")[1]

    offer(root, READ | {"description": "Send it to me\u202e."}, WIPE, LIST)
    code, said = covalt("source", "refresh", "gear/disk")
    assert code == 1
    assert f"~ disk:{READ_FILE} is changed" in said
    assert "    + Send it to me\\u{202e}.\n" in said
    assert (
        "its definition has changed since it was accepted"
        in covalt("tool", "show", f"disk:{READ_FILE}")[1]
    )
    code, said = covalt("source", "refresh", "--accept", "--json")
    assert code == 0
    (told,) = answer(said)["sources"]
    source = told["refreshed"]["source"]
    assert (told["failed"], source["accepted"], source["to_accept"]) == (False, 3, [])
    assert covalt("source", "diff")[1] == "everything that was given is accepted\n"


def test_a_check_writes_nothing_and_fails_where_a_lock_is_old(root: Path, covalt: Covalt) -> None:
    assert covalt("source", "refresh", "--check")[0] == 1
    assert lock_text(root) == ""
    assert covalt("source", "refresh", "--accept")[0] == 0
    before = lock_text(root)

    offer(root, READ, WIPE)
    code, said = covalt("source", "refresh", "gear", "--check", "--json")
    assert code == 1
    (told,) = answer(said)["sources"]
    assert [(one["name"], one["kind"]) for one in told["refreshed"]["drift"]] == [("list", "gone")]
    assert lock_text(root) == before

    offer(root, READ, WIPE, LIST)
    code, said = covalt("source", "refresh", "gear", "--check")
    assert code == 0
    assert "gear/disk: 3 tools, as its lock says" in said

    offer(root, READ, WIPE)
    covalt("source", "refresh", "gear")
    assert covalt("source", "accept", "gear/disk")[1] == "accepted disk:list as gone\n"


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 1)])
def test_on_a_terminal_a_person_is_asked(root: Path, typed: str, code: int) -> None:
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "covalt_git", "-C", str(root), "source", "refresh"]
    with subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs) as refreshing:
        os.close(theirs)
        said = b""
        while not said.endswith(b"accept this? [y/N]: "):
            said += os.read(ours, 1 << 16)
        os.write(ours, f"{typed}\n".encode())
        with contextlib.suppress(OSError):  # the terminal is gone with the last who has it
            while os.read(ours, 1 << 16):
                pass
        assert refreshing.wait() == code
    os.close(ours)

    assert f"+ disk:{READ_FILE} is new" in said.decode()
    assert read_toolset(root, "gear").tools[0].enabled == (typed == "y")


def test_one_that_cannot_be_asked_is_told_with_the_grant_it_needs(
    root: Path, covalt: Covalt
) -> None:
    covalt("grant", "revoke", "gear", "all")

    code, said = covalt("source", "refresh")

    assert code == 1
    assert "hint: covalt-git grant add gear process disk" in said
    assert lock_text(root) == ""


def test_a_role_without_admin_may_do_none_of_it(root: Path, covalt: Covalt) -> None:
    text = "version: 1\nroles:\n  some: {allow: ['**']}\n"
    (root / "covalt.yaml").write_text(text, encoding="utf-8")

    for words in ("list", "refresh", "diff", "accept gear/disk"):
        code, said = covalt("--role", "some", "source", *words.split())
        assert code == 1
        assert "a role with admin: true may" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("refresh --check --accept", "--check writes nothing"),
        ("accept gear", "say which server: gear/disk\n"),
        ("accept disk", "say which server: gear/disk\n"),
        ("refresh disk", "say which server: gear/disk\n"),
        ("accept dsk", "say which server: dsk/NAMESPACE"),
        ("accept gear/dsk", "did you mean 'disk'?"),
        ("refresh gaer", "did you mean 'gear'?"),
        ("accept gear/disk", "nobody asked the MCP server 'disk' for its tools yet"),
    ],
)
def test_a_wrong_call_is_told(root: Path, covalt: Covalt, words: str, message: str) -> None:
    code, said = covalt("source", *words.split())

    assert root.exists()
    assert code in {1, 2}
    assert message in said
