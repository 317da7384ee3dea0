from pathlib import Path

import pytest

from covalt_git.runtime.personal_places import why_personal, why_wide


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is a link, as on machines whose homes are on another disk."""
    (tmp_path / "disk/me/.ssh").mkdir(parents=True)
    home = tmp_path / "me"
    home.symlink_to(tmp_path / "disk/me")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.mark.parametrize("target", ["me", "disk/me", "disk", "/", "/etc"])
def test_a_link_to_a_wide_folder_is_wide(home: Path, tmp_path: Path, target: str) -> None:
    link = tmp_path / "tools"
    link.symlink_to(tmp_path / target)
    assert repr(str(link)) in why_wide(link)
    (home / "tools").mkdir()
    assert not why_wide(home / "tools")


def test_a_link_to_what_is_personal_is_personal(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "tools"
    link.symlink_to(tmp_path / "disk/me/.ssh")
    assert why_personal(link / "id_rsa") == why_personal(home / ".ssh/id_rsa")
    assert why_personal(link)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert not why_personal(tmp_path / "circle")
