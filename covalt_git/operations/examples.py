"""Operation on the examples of tools: run them and compare their results."""

from __future__ import annotations

import dataclasses
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.calls.tool_examples import ExampleRun, run_example
from covalt_git.errors import WrongCallError, nearest_name
from covalt_git.names import EVERYTHING, matches, matches_text
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.operations.tools import visible_toolsets
from covalt_git.runtime import sandbox_levels
from covalt_git.workspaces.registry import Chats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.tool import Tool


class TestTools(Request):
    """Request: the tools whose examples are run."""

    __test__ = False  # not a test class, although its name looks like one to pytest

    patterns: tuple[str, ...] = Field(
        (), description="Tools, toolsets or patterns, such as data-lab:*; none for all tools."
    )
    keep: bool = Field(default=False, description="Keep the scratch chats in the project.")


class ToolsTested(Result):
    """The examples that were run, and the number of each verdict.

    Without ``keep`` no example has a ``chat_id``, because its chat is deleted.
    """

    examples: tuple[ExampleRun, ...]
    ok: int
    failed: int
    skipped: int
    without_examples: tuple[str, ...] = Field(description="Tools without examples.")
    broken: tuple[str, ...] = Field(description="Toolsets with errors; none of their tools is run.")
    cancelled: bool = Field(description="Whether a user stopped it, so that others were not run.")


@operation(changes=True, local=True)
def test_tools(context: Context, request: TestTools) -> ToolsTested:
    """Run the examples of tools, each in a scratch chat, and compare the results with ``expected``.

    A tool that lacks a grant, or that needs approval and may reach the network, is skipped.
    """
    # The fork server tries the sandbox while the index is read here.
    sandbox_levels.begin()
    tools, broken = _chosen(context, request.patterns)
    jobs = [(tool, number + 1) for tool in tools for number in range(len(tool.examples))]
    runs: list[ExampleRun] = []
    with _chats(context, keep=request.keep) as chats:
        for tool, number in jobs:
            context.progress(len(runs), len(jobs))
            run = run_example(context.engine(), chats, tool, number)
            if request.keep and run.chat_id is not None:
                with chats.open(run.chat_id) as chat:
                    context.update_index(chat)
            chat_id = run.chat_id if request.keep else None
            runs.append(dataclasses.replace(run, took_ms=round(run.took_ms, 1), chat_id=chat_id))
            if run.cancelled:
                break
    context.progress(len(jobs), len(jobs))
    verdicts = [run.verdict for run in runs]
    return ToolsTested(
        examples=tuple(runs),
        ok=verdicts.count("ok"),
        failed=verdicts.count("failed"),
        skipped=verdicts.count("skipped"),
        without_examples=tuple(tool.tool_id for tool in tools if not tool.examples),
        broken=broken,
        cancelled=any(run.cancelled for run in runs),
    )


def _chosen(context: Context, patterns: tuple[str, ...]) -> tuple[list[Tool], tuple[str, ...]]:
    """Return the tools that match the patterns, sorted, and the ids of matching toolsets with errors.

    Without patterns, all tools match.
    """
    index = context.toolset_index()
    every = (tool for tool in index.tools() if tool.kind != "builtin")
    tools = context.catalog.visible(every)
    visible = sorted(tools, key=lambda tool: tool.tool_id)
    unsound = [row["id"] for row in visible_toolsets(context) if not row["sound"]]
    chosen: set[str] = set()
    broken: set[str] = set()
    for pattern in patterns or ("**",):
        path = pattern.replace(":", ".", 1)
        path = path if "." in path else f"{path}.**"
        # The tools of a toolset's servers have namespaces of their own.
        tool_ids = {
            tool.tool_id
            for tool in visible
            if pattern in {*EVERYTHING, tool.toolset_id} or matches(path, tool.path)
        }
        # The index may have no tools of a broken toolset.
        named = {
            toolset_id for toolset_id in unsound if matches_text(path.partition(".")[0], toolset_id)
        }
        if patterns and not tool_ids | named:
            names = {name for tool in visible for name in (tool.tool_id, tool.toolset_id)}
            near = nearest_name(pattern, names)
            suggestion = f"; did you mean {near!r}?" if near else ""
            raise WrongCallError(f"{pattern!r} matches no tool{suggestion}")
        chosen |= tool_ids
        broken |= named
    broken |= {tool.toolset_id for tool in visible if tool.tool_id in chosen}.intersection(unsound)
    return [
        context.catalog.find(tool.tool_id).tool
        for tool in visible
        if tool.tool_id in chosen and tool.toolset_id not in broken
    ], tuple(sorted(broken))


@contextmanager
def _chats(context: Context, *, keep: bool) -> Iterator[Chats]:
    """Yield the folder of the scratch chats: the project's, or a temporary one."""
    if keep:
        yield context.project.chats
        return
    # These chats are deleted at the end, so that nothing in them has to survive a power cut.
    workspace = context.project.config.workspace.model_copy(update={"durability": "fast"})
    with tempfile.TemporaryDirectory(prefix="covalt-examples-") as folder:
        # Without the git server of the project, which must not get them.
        yield Chats(Path(folder) / "chats", workspace.with_git_storage(None))
