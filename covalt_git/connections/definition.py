"""Definition of a connection: a program or a URL, with all references resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from covalt_git.hosts import Reach
    from covalt_git.toolsets.toolset_copies import ToolsetCopy


class Name(NamedTuple):
    """Key of a connection: a server of a toolset, and the chat; without a chat, it only lists the server's tools.

    Chats share no connections, so that a server's memory belongs to a single chat.
    """

    root: Path
    toolset_id: str
    server_id: str
    chat_id: str | None = None

    def __str__(self) -> str:
        return f"{self.toolset_id}/{self.server_id}"


class Program(Protocol):
    """A running program in a sandbox."""

    def wait(self, within_s: float) -> bool:
        """Return whether it ends in this time, with all its processes."""

    def end(self) -> None:
        """End the program; none of its processes is left when this returns."""


class Sandbox(Protocol):
    """A sandbox to start programs in: :class:`covalt_git.runtime.pool.ProgramSpec`."""

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        streams: Sequence[int],
        report: Callable[[str], None],
    ) -> Program:
        """Start a program with these standard streams; ``report`` gets what the sandbox refuses, in other threads."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Transport of a server, and its parameters.

    Attributes:
        argv: the program and its arguments, for stdio.
        cwd: the program's working directory; None for a temporary one.
        env: variables in addition to the few that every program needs.
        toolset: the copy of the toolset, if the program uses files of it.
        url: the URL, for HTTP; each request has the ``headers``.
        reach: the hosts that may be connected to.
        workspace: the folder that the server receives as its root.
        secrets: values to mask in the server's output.
        sandbox: the sandbox that the program runs in; None if it is granted to run without one.
        hint: for the error of a failed start, such as how to grant a folder that the arguments name.
        check: checks the installed files of the program before each start, in another thread, and lets nothing remove
            them during the block.
    """

    name: Name
    transport: Literal["stdio", "sse", "streamable-http"]
    argv: tuple[str, ...] = field(default=(), repr=False)
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    toolset: ToolsetCopy | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    reach: Reach | None = None
    workspace: Path | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    sandbox: Sandbox | None = None
    hint: str = ""
    check: Callable[[], AbstractContextManager[None]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def may_sign_in(self) -> bool:
        """Whether a stored token may be sent: for a URL without an ``Authorization`` header."""
        # The definition already says who calls; a stored token would replace it.
        return bool(self.url) and all(name.lower() != "authorization" for name in self.headers)
