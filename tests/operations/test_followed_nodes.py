"""What the user of a node is told that has a git server: passwords, roles and trust."""

import subprocess
from pathlib import Path

import pytest

from covalt_git.project import Project
from covalt_git.system.node_folder import checkout
from covalt_git.trust import Consents, NotTrustedError, git_storage
from tests.api_client import configure, make_project
from tests.operations_client import Operations
from tests.trusting import use_config

STORAGE = """\
storage:
  type: git
  url: "https://git.example.com/chats/{chat_id}.git"
  username: covalt
  password: "${GIT_TOKEN}"
"""


def test_the_password_of_a_git_server_can_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    operate = Operations(make_project(tmp_path / "a"))
    assert operate.error("set_secret", name="GIT_TOKEN", value="a-long-value").http_status == 404
    configure(operate.root, STORAGE)
    stored = operate("set_secret", name="GIT_TOKEN", value="a-long-value")
    assert "GIT_TOKEN='a-long-value'" in Path(stored["file"]).read_text()
    assert operate("check_secret", name="GIT_TOKEN")["characters"] == len("a-long-value")
    # A toolset does not get it.
    error = operate.error(
        "set_secret", name="GIT_TOKEN", value="a-long-value", toolset_id="data-lab"
    )
    assert error.http_status == 404


def test_a_remote_is_named_as_the_reason_why_a_project_is_not_trusted_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "no-trust", trusts=False)
    root = make_project(tmp_path / "a")
    if not (root / ".git").exists():
        subprocess.run(["git", "init", "-q", root], check=True)
    Consents.of(root).trust_new_project()
    configure(root, STORAGE)
    assert not Consents.of(root).lacking([git_storage(Project.open(root).config.storage)])
    remote = ["remote", "add", "origin", "https://example.com/p.git"]
    subprocess.run(["git", "-C", root, *remote], check=True)
    with pytest.raises(NotTrustedError, match="its git repository has a remote"):
        Consents.of(root).check([git_storage(Project.open(root).config.storage)])


def test_a_node_without_roles_says_where_they_are_added(tmp_path: Path) -> None:
    node = tmp_path / "node"
    root = make_project(checkout(node, "1" * 40))
    assert "in a clone, and push it" in Operations(root).error("create_token", role="agent").hint
    other = make_project(tmp_path / "other")
    assert "clone" not in Operations(other).error("create_token", role="agent").hint
