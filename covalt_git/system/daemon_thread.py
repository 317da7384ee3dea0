"""Threads that the interpreter does not wait for at its exit, unlike those of ``concurrent.futures`` and anyio."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


async def in_daemon_thread(work: Callable[[], Result], name: str) -> Result:
    """Run ``work`` in a new thread, and return its result or raise its error.

    Cancellation ends the wait, not the work.
    """
    is_over: Future[None] = Future()
    is_over.set_running_or_notify_cancel()
    outcome: Future[Result] = Future()  # asyncio's futures refuse a StopIteration

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            outcome.set_exception(error)
        is_over.set_result(None)

    threading.Thread(target=run, name=name, daemon=True).start()
    await asyncio.wrap_future(is_over)
    return outcome.result()
