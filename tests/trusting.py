"""Configuration folders of test users, who trust every project unless a test is about trust."""

from pathlib import Path

import pytest

from covalt_git.trust import trust_folder


def use_config(monkeypatch: pytest.MonkeyPatch, folder: Path, *, trusts: bool = True) -> None:
    """Use ``folder`` as the configuration of the user, who trusts every project if ``trusts``."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    if trusts:
        trust_folder(Path("/"))
