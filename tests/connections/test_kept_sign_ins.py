"""Files of sign-ins are read back as they were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import SignInFile, StoredLogin, stored_logins

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_sign_in_without_a_resource_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    url = "https://mcp.example/mcp"
    kept = StoredLogin(
        project=str(tmp_path),
        toolset_id="demo",
        server_id="remote",
        url=url,
        issuer="https://as.example",
        origins=("https://as.example",),
        token_endpoint="https://as.example/token",
        resource=None,
        client_id="c",
        access_token="t0ken",
        signed_in_at="2026-11-22T00:00:00Z",
    )
    file = SignInFile.of(Name(tmp_path, "demo", "remote"), url)

    file.write(kept)

    assert file.read() == kept
    assert [one for _, one in stored_logins(tmp_path)] == [kept]
