"""A call that runs in a thread while its client waits: what it tells is passed on, and it can be ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.to_thread import run_sync

from covalt_git.calls.running import CallEvent, Follower
from covalt_git.runtime.jobs import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server import ServerRequestContext

Result = TypeVar("Result")

MOST_CALLS = 64
"""How many calls run or wait for their chats at a time; further ones wait for them."""


class Calls:
    """The calls of one server; each has a thread while it runs."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(MOST_CALLS)
        self._ended: dict[Follower, anyio.Event] = {}

    async def end(self, grace_s: float) -> None:
        """End all of them, and wait until they have ended, at most so many seconds."""
        running = {**self._ended}
        for follower in running:
            follower.cancel.set()
        with anyio.move_on_after(grace_s):
            for ended in running.values():
                await ended.wait()

    async def run(
        self, ctx: ServerRequestContext[Any, Any], work: Callable[[Follower], Result]
    ) -> Result:
        """Return what ``work`` returns; progress is told to the client while it is under way.

        When the client cancels, ``work`` is told so and has its end waited for: what it wrote is kept.
        """
        loop = asyncio.get_running_loop()
        send, receive = anyio.create_memory_object_stream[CallEvent](float("inf"))

        def put(event: CallEvent) -> None:
            with suppress(anyio.ClosedResourceError):  # told when all had ended
                send.send_nowait(event)

        def tell(event: CallEvent) -> None:
            loop.call_soon_threadsafe(put, event)

        follower = Follower(tell)

        async def cancel() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                follower.cancel.set()

        async def pass_on() -> None:
            async with receive:
                async for event in receive:
                    if isinstance(event, Progress):
                        total, message = event.total, event.message or None
                        await ctx.session.report_progress(event.done, total, message)

        async with send, anyio.create_task_group() as group:
            group.start_soon(pass_on)
            async with anyio.create_task_group() as watched:
                watched.start_soon(cancel)
                self._ended[follower] = anyio.Event()
                try:
                    ended = await run_sync(_outcome, work, follower, limiter=self._threads)
                finally:
                    self._ended.pop(follower).set()
                watched.cancel_scope.cancel()
            send.close()  # once all of it was passed on, the result follows
        if isinstance(ended, Exception):
            raise ended
        return ended


def _outcome(work: Callable[[Follower], Result], follower: Follower) -> Result | Exception:
    """Return what comes of it, an error too: task groups would wrap one that is raised."""
    try:
        return work(follower)
    except Exception as error:  # noqa: BLE001 - raised again by whoever waits
        return error
