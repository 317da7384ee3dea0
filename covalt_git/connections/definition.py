"""What makes up one connection: a program or an address, with nothing left to be looked up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from covalt_git.hosts import Reach
    from covalt_git.toolsets.toolset_copies import ToolsetCopy


class Name(NamedTuple):
    """Which connection it is: a server of a toolset, for one chat or, to ask what it has, for none.

    No two chats share a connection, so that what a server keeps in memory is one chat's alone.
    """

    root: Path
    toolset_id: str
    server_id: str
    chat_id: str | None = None

    def __str__(self) -> str:
        return f"{self.toolset_id}/{self.server_id}"


@dataclass(frozen=True, slots=True)
class Definition:
    """How a server is reached.

    Attributes:
        argv: the program and its arguments, of stdio.
        cwd: the folder that it starts in; without one, an empty one of its own.
        env: what it has beside the few variables that every program needs.
        toolset: the copy of the toolset that the program starts from, where it uses files of it.
        url: the address, of the other transports; ``headers`` are sent along.
        reach: which hosts may be connected to on the way there.
        workspace: the folder that it is offered as its root.
        secrets: values that must not be in what it says.
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

    @property
    def may_sign_in(self) -> bool:
        """Whether a token that is kept for it may be sent: nothing else says there who asks."""
        return bool(self.url) and all(one.lower() != "authorization" for one in self.headers)
