"""Collection of the answers of MCP servers to calls of earlier processes, while a server of covalt-git runs."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync

from covalt_git.calls.servers import left_tasks
from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from covalt_git.gateway.service import Gateway

_logger = logging.getLogger(__name__)

COLLECT_S = 5.0
"""Time between two requests to the servers, in seconds."""


async def collect(gateway: Gateway) -> None:
    """Record the answers of the principal's calls; return when no call waits for one."""
    chat_ids: set[str] | None = None
    while chat_ids is None or chat_ids:
        try:
            # Abandoned when the server stops: a request to another server may take long.
            chat_ids = await run_sync(partial(_collect, gateway, chat_ids), abandon_on_cancel=True)
        except CovaltError as error:
            # Not the end: covalt.yaml, for example, can have an error while its user edits it.
            _logger.info("answers of MCP servers were not collected: %s", error.message)
        except Exception:
            _logger.exception("answers of MCP servers cannot be collected because of a bug")
            return
        await anyio.sleep(COLLECT_S)


def _collect(gateway: Gateway, chat_ids: set[str] | None) -> set[str]:
    project = gateway.project()
    ids = project.chats.ids() if chat_ids is None else chat_ids
    return left_tasks.collect(project.engine(), project.chats, ids)
