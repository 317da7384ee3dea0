"""Last failures of listing the tools of sources, in this process.

Not stored: the reason is of this machine, and may be another one after a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.errors import CovaltError
    from covalt_git.sources.refresh import ToolSource

_MOST = 1000
_errors: OrderedDict[tuple[Path, str, str, str], CovaltError] = OrderedDict()
"""By project, digest of the toolset, toolset and namespace: a changed toolset may list its tools."""


def failure_of(root: Path, source: ToolSource) -> CovaltError | None:
    """Return why the last listing of a source failed; None if it did not, or its toolset has changed."""
    return _errors.get(_key(root, source))


def record(root: Path, source: ToolSource, error: CovaltError | None) -> None:
    """Record the outcome of a listing."""
    _errors.pop(_key(root, source), None)
    if error is not None:
        _errors[_key(root, source)] = error
        if len(_errors) > _MOST:
            _errors.popitem(last=False)


def _key(root: Path, source: ToolSource) -> tuple[Path, str, str, str]:
    return root, source.toolset.digest, source.toolset.id, source.namespace
