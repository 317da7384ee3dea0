"""Boot id of the machine: it differs after every restart, on which unwritten data may have been lost."""

from __future__ import annotations

from pathlib import Path


def boot_id() -> str:
    """Return the id of this boot, or an empty text where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
