"""Files of sign-ins are read back as they were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import SignInFile, StoredLogin, stored_logins

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


URL = "https://mcp.example/mcp"


def stored_login(project: Path) -> StoredLogin:
    return StoredLogin(
        project=str(project),
        toolset_id="demo",
        server_id="remote",
        url=URL,
        issuer="https://as.example",
        origins=("https://as.example",),
        token_endpoint="https://as.example/token",
        resource=None,
        client_id="c",
        access_token="t0ken",
        signed_in_at="2026-11-22T00:00:00Z",
    )


def test_a_sign_in_without_a_resource_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    kept = stored_login(tmp_path)
    file = SignInFile.of(Name(tmp_path, "demo", "remote"), URL)

    file.write(kept)

    assert file.read() == kept
    assert [one for _, one in stored_logins(tmp_path)] == [kept]


def test_stored_logins_of_other_projects_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for project in (ours, theirs):
        SignInFile.of(Name(project, "demo", "remote"), URL).write(stored_login(project))

    assert [one.project for _, one in stored_logins(ours)] == [str(ours)]
