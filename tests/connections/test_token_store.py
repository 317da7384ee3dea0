"""Files of stored logins."""

from pathlib import Path

import pytest

from covalt_git.connections.definition import Name
from covalt_git.connections.token_store import SignInFile, stored_logins
from tests.connections.signing_in import stored_login

URL = "https://mcp.example/mcp"


@pytest.mark.usefixtures("config_folder")
def test_a_login_is_read_back_and_listed_for_its_project_alone(tmp_path: Path) -> None:
    ours, theirs = (stored_login(tmp_path / name, URL) for name in ("ours", "theirs"))
    for login in (ours, theirs):
        file = SignInFile.of(Name(Path(login.project), "demo", "remote"), URL)
        file.write(login)
        assert file.read() == login

    assert [one for _, one in stored_logins(tmp_path / "ours")] == [ours]
