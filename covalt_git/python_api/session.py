"""Session of the Python API: the folder, role and open state that the objects of one open project share."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from covalt_git.errors import CovaltError
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_root import NotAProjectError
from covalt_git.operations.context import Context
from covalt_git.project import Project
from covalt_git.runtime import pool

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.operations.registry import Operation, RequestT, ResultT


class ClosedProjectError(CovaltError):
    """The project was closed."""

    code = "closed_project"


class Session:
    """Runner of operations, each in a separate context, so that threads share nothing."""

    _lock: ClassVar = threading.Lock()
    _open: ClassVar[int] = 0  # sessions of this process

    def __init__(self, root: Path, role: str | None) -> None:
        Project.cached(root, role)  # an unusable covalt.yaml is an error now, not at the first call
        self.root = root
        self._role = role
        self._is_closed = False
        with Session._lock:
            Session._open += 1

    def perform(
        self,
        operation: Operation[RequestT, ResultT],
        token_file: Path | None = None,
        /,
        **fields: object,
    ) -> ResultT:
        """Perform an operation, with the access token in a file.

        Raises:
            ClosedProjectError: if the session is closed.
            NotAProjectError: if the folder of the project was removed.
            CovaltError: as the operation.
        """
        if self._is_closed:
            raise ClosedProjectError(
                f"the project {str(self.root)!r} is closed",
                hint="open it again with open_project()",
            )
        # Without it, an operation would report a missing covalt.yaml, and its hint would create another
        # project.
        if not self.root.is_dir():
            raise NotAProjectError(f"the folder {str(self.root)!r} does not exist any more")
        # For each operation, so that a changed covalt.yaml or a trust that was withdrawn counts at once.
        root = current_root(self.root)
        with Context(root, partial(self._project, root, token_file)) as context:
            return operation(context, **fields)

    def _project(self, root: Path, token_file: Path | None) -> Project:
        project = Project.cached(root, self._role)
        return project if token_file is None else project.with_token(token_file)

    def close(self) -> None:
        """Close the session; closing the last one also ends the processes of tools and MCP servers."""
        with Session._lock:
            if self._is_closed:
                return
            self._is_closed = True
            Session._open -= 1
            # The pool belongs to the process: other open projects still use it.
            if not Session._open:
                _end_processes()


def _end_processes() -> None:
    from covalt_git.connections.pool import CONNECTIONS  # noqa: PLC0415 - mcp takes 0.6 s

    CONNECTIONS.close()
    pool.shared().close()
