"""Files and hosts that a server should not need: credentials, the metadata services of clouds, and telemetry."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Final

_OF_HOME: Final = {
    ".ssh": "keys of SSH",
    ".aws": "credentials of AWS",
    ".azure": "credentials of Azure",
    ".config/gcloud": "credentials of Google Cloud",
    ".kube": "credentials of Kubernetes",
    ".docker": "credentials of Docker",
    ".gnupg": "keys of GnuPG",
    ".netrc": "passwords",
    ".npmrc": "tokens of npm",
    ".pypirc": "tokens of PyPI",
    ".git-credentials": "passwords of git",
    ".config/git/credentials": "passwords of git",
    ".config/gh": "tokens of GitHub",
    ".config/covalt-git": "tokens and trust of covalt-git",
    ".password-store": "passwords",
    ".local/share/keyrings": "passwords",
    ".mozilla": "data of a browser",
    ".config/google-chrome": "data of a browser",
    ".config/chromium": "data of a browser",
    "Library/Keychains": "passwords",
    ".bash_history": "the history of your shell",
    ".zsh_history": "the history of your shell",
}
_OF_SYSTEM: Final = {
    "/etc/shadow": "passwords of the machine",
    "/etc/gshadow": "passwords of the machine",
    "/etc/sudoers": "rights of users of the machine",
    "/etc/ssh": "keys of the machine",
    "/run/docker.sock": "Docker, and with it the whole machine",
    "/var/run/docker.sock": "Docker, and with it the whole machine",
}
_HOMES: Final = ("/home", "/root", "/Users")
_METADATA: Final = frozenset(
    {
        *("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200"),
        *("metadata.google.internal", "metadata", "metadata.goog", "instance-data"),
    }
)

_TELEMETRY: Final = {
    # https://posthog.com/docs/api
    "PostHog": ("i.posthog.com", "app.posthog.com"),
    # https://www.twilio.com/docs/segment/connections/sources/catalog/libraries/server/http-api
    "Segment": ("api.segment.io", "api.segment.com", "cdn.segment.com", "segmentapis.com"),
    # https://docs.sentry.io/concepts/key-terms/dsn-explainer/
    "Sentry": ("ingest.sentry.io", "ingest.us.sentry.io", "ingest.de.sentry.io"),
    # https://developer.mixpanel.com/reference/ingestion-api
    "Mixpanel": (
        "api.mixpanel.com",
        "api-js.mixpanel.com",
        "api-eu.mixpanel.com",
        "api-in.mixpanel.com",
    ),
    # https://amplitude.com/docs/apis/analytics/http-v2
    "Amplitude": ("api.amplitude.com", "api2.amplitude.com", "api.eu.amplitude.com"),
    # https://developers.google.com/analytics/devguides/collection/protocol/ga4
    "Google Analytics": ("google-analytics.com", "googletagmanager.com"),
    # https://docs.scarf.sh/
    "Scarf": ("scarf.sh",),
    # onnxruntime sends to the first (its docs/Privacy.md says that, a run of markitdown-mcp where to); Azure Monitor
    "Microsoft": (
        *("events.data.microsoft.com", "dc.services.visualstudio.com"),
        "in.applicationinsights.azure.com",
    ),
}
"""Domains to which the libraries of these services send what their programs do, with the page that names them."""


_SHARED: Final = frozenset(
    {"/etc", "/var", "/tmp", "/opt", "/srv", "/mnt", "/home", "/run", "/var/lib", "/var/run"}  # noqa: S108 - a name
)
"""Folders with files of many programs and users."""


def why_wide(folder: Path) -> str:
    """Return why a grant of a folder gives more than a program needs; empty for a folder of its own.

    A folder is wide if it is the home of the user, above it, or one of the system that has files of many programs; also
    if it is a link to such a folder, because a grant shows what the link leads to.
    """
    homes, places = _with_target(Path.home()), _with_target(folder)
    if not any(
        str(place) in _SHARED or any(home.is_relative_to(place) for home in homes)
        for place in places
    ):
        return ""
    return (
        f"a grant is for a whole folder, and {str(folder)!r} has more than this: move the file into a"
        " folder of its own"
    )


def why_personal(path: Path) -> str:
    """Return what a path, or what it leads to as a link, has that a server should not need; empty for other paths."""
    return next(filter(None, map(_why_personal, _with_target(path))), "")


def _with_target(path: Path) -> tuple[Path, ...]:
    """Return a path, and what it leads to if it or a folder above it is a link."""
    target = Path(
        os.path.realpath(path)
    )  # Path.resolve() raises an error if links lead in a circle
    return (path,) if target == path else (path, target)


def _why_personal(path: Path) -> str:
    if why := why_secret(path):
        return why
    own = _with_target(Path.home())
    if not any(path.is_relative_to(home) for home in own):
        for homes in map(Path, _HOMES):
            if path != homes and path.is_relative_to(homes) and not own[0].is_relative_to(path):
                return "files of another user"
    return ""


def why_secret(path: Path) -> str:
    """Return what a path has by its name, also of a file that does not exist."""
    config = os.environ.get("XDG_CONFIG_HOME")
    if config and path.is_relative_to(Path(config) / "covalt-git"):
        return _OF_HOME[".config/covalt-git"]
    for name, what in _OF_HOME.items():
        if any(path.is_relative_to(home / name) for home in _with_target(Path.home())):
            return what
    for place, what in _OF_SYSTEM.items():
        if path.is_relative_to(place):
            return what
    return ""


def why_internal(host: str) -> str:
    """Return why a server should not need a host or IP address; empty for other hosts."""
    if host in _METADATA:
        return "the metadata of this machine, with credentials of its cloud"
    try:
        ip = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return ""
    if str(ip) in _METADATA or ip.is_link_local:
        return "the metadata of this machine, with credentials of its cloud"
    return "an address of your network" if ip.is_private and not ip.is_loopback else ""


def why_telemetry(host: str) -> str:
    """Return whose telemetry a host receives; empty for other hosts."""
    for service, domains in _TELEMETRY.items():
        if any(f".{host}".endswith(f".{domain}") for domain in domains):
            return f"telemetry: {service} collects there what its users do"
    return "telemetry, by its name" if host.startswith("telemetry.") else ""
