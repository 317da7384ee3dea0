"""What a server watches for its clients ends with it, whenever that is."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from mcp import Client

from covalt_git.gateway.mcp_server import Faces
from covalt_git.gateway.service import Gateway
from covalt_git.toolsets.new_project import create_project
from tests.kernel_queues import open_queues


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
def test_a_server_that_ends_while_it_begins_leaves_no_queue_of_events(tmp_path: Path) -> None:
    create_project(tmp_path)
    before = open_queues()

    async def main() -> None:
        async with Client(Faces(Gateway(tmp_path), only_client="here").server(), cache=None):
            with anyio.fail_after(20):
                # Until it has begun to look, and no longer: nothing but the kernel tells.
                while open_queues() == before:  # noqa: ASYNC110 - of which there is no event
                    await anyio.sleep(0.001)

    anyio.run(main)

    assert open_queues() == before
