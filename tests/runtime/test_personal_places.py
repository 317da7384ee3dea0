from pathlib import Path

import pytest

from covalt_git.runtime.personal_places import why_personal, why_telemetry, why_wide


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


@pytest.mark.parametrize(
    ("host", "is_telemetry"),
    [
        *((host, True) for host in ("us.i.posthog.com", "api.segment.io", "static.scarf.sh")),
        *((host, True) for host in ("o1.ingest.us.sentry.io", "api-eu.mixpanel.com")),
        *((host, True) for host in ("api2.amplitude.com", "www.google-analytics.com")),
        *((host, True) for host in ("mobile.events.data.microsoft.com", "telemetry.example.com")),
        *((host, False) for host in ("api.example.com", "sentry.io", "posthog.com")),
        *((host, False) for host in ("scarf.shop", "mytelemetry.example")),
    ],
)
def test_hosts_of_telemetry_are_told_from_others(host: str, *, is_telemetry: bool) -> None:
    assert why_telemetry(host).startswith("telemetry") is is_telemetry
