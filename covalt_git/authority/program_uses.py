"""Uses of a granted program of an MCP server, as items of facts: ``disk with the folder /srv``."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from covalt_git.authority.pattern_subset import host_within

WITHOUT_SANDBOX = "without a sandbox"

_FOLDER, _HOST, _WRITABLE = "with the folder ", "with the host ", " (writable)"


def program_use_within(narrow: str, wide: str) -> bool:
    """Return whether a program with the use ``wide`` can do all that the use ``narrow`` permits."""
    (inner_server, inner), (outer_server, outer) = (item.split(" ", 1) for item in (narrow, wide))
    if inner_server != outer_server:
        return False
    if outer == WITHOUT_SANDBOX:
        return True
    if inner.startswith(_HOST) and outer.startswith(_HOST):
        return host_within(inner.removeprefix(_HOST), outer.removeprefix(_HOST))
    if inner.startswith(_FOLDER) and outer.startswith(_FOLDER):
        writes_no_more = outer.endswith(_WRITABLE) or not inner.endswith(_WRITABLE)
        return writes_no_more and _folder(inner).is_relative_to(_folder(outer))
    return inner == outer


def _folder(use: str) -> PurePosixPath:
    """Return the folder of a use, which quotes it for a shell."""
    path, *_ = shlex.split(use.removeprefix(_FOLDER))
    return PurePosixPath(path)
