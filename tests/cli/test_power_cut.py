"""A power cut takes along what was not flushed; the next command finds all that was acknowledged."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from covalt_git.git_objects.write_ahead import WriteAheadLog, this_boot
from covalt_git.toolsets.new_project import create_project
from tests.cli.test_chat import covalt
from tests.power_cuts import STATES, cut_off
from tests.workspaces.stores import git, run_git

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(this_boot() is None, reason="nothing tells the boots apart here")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "asked", [("log", "c1", "--json"), ("show", "c1"), ("upload", "c1", "covalt.yaml")]
)
def test_any_command_brings_back_what_was_acknowledged(
    tmp_path: Path, state: str, asked: tuple[str, ...]
) -> None:
    create_project(tmp_path)
    covalt(tmp_path, "chat", "new", "--id", "c1")
    store = tmp_path / "data/chats/c1/store.git"
    flushed = shutil.copytree(store, tmp_path / "flushed")
    (tmp_path / "one.txt").write_text("one\n", encoding="utf-8")
    covalt(tmp_path, "chat", "upload", "c1", str(tmp_path / "one.txt"))
    covalt(tmp_path, "chat", "branch", "c1", "other")
    (tmp_path / "two.txt").write_text("two\n", encoding="utf-8")
    covalt(tmp_path, "chat", "upload", "c1", str(tmp_path / "two.txt"))
    before = {name: git(store, "rev-parse", name).strip() for name in ("main", "other")}
    recorded = WriteAheadLog(str(store)).records()
    lost = {path for record in recorded for path in (*record.files, record.ref)}
    cut_off(store, flushed, lambda path: state if path in lost else "whole")
    assert (run_git(store, "rev-parse", "main^{commit}").returncode == 0) == (state == "whole")

    covalt(
        tmp_path,
        "chat",
        *asked[:2],
        *(str(tmp_path / one) if "." in one else one for one in asked[2:]),
    )

    assert git(store, "fsck", "--strict", "--no-dangling") == ""
    log = json.loads(covalt(tmp_path, "chat", "log", "c1", "--json"))["manifests"]
    assert before["main"] in str(log)
    assert git(store, "rev-parse", "other").strip() == before["other"]
    assert git(store, "show", f"{before['main']}:two.txt") == "two\n"
