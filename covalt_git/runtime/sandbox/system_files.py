"""What of the system a tool may read: programs, libraries and the settings that they need."""

from __future__ import annotations

import site
import sys
from pathlib import Path
from typing import Final

FOLDERS: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
"""Programs and libraries; some are links into others."""

SETTINGS: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
"""Files that programs read on their start, and TLS certificates; none has personal data."""

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def interpreter_paths() -> tuple[Path, ...]:
    """Return the folders that this interpreter and its installed packages are in."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages()]
    folders.append(str(Path(sys.executable).parent))
    paths = {Path(path).resolve() for path in folders}
    return tuple(sorted(path for path in paths if path.is_dir()))


def outermost(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the paths that are not inside another path."""
    outer: list[Path] = []
    for path in sorted(set(paths)):  # a folder comes before what is in it
        if not any(path.is_relative_to(above) for above in outer):
            outer.append(path)
    return tuple(outer)
