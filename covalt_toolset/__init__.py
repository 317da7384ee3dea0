"""SDK for authors of tools: mark functions as tools, access the workspace of a call, test tools.

::

    from covalt_toolset import get_context, tool

    @tool(name="Word Count")
    def word_count(filename: str) -> dict[str, int]:
        text = get_context().path(filename).read_text(encoding="utf-8")
        return {"words": len(text.split())}

A test needs no server::

    with set_context(workspace=tmp_path):
        assert invoke(word_count, {"filename": "poem.txt"}) == {"words": 5}

This package does not depend on Git, chats or servers, and does not import ``covalt_git``.
"""

from __future__ import annotations

from covalt_toolset.callbacks import Answering, Listener, SignInNeeded
from covalt_toolset.context import (
    ActiveContext,
    SecretNotGranted,
    SignIns,
    ToolContext,
    clear_context,
    get_context,
    set_context,
)
from covalt_toolset.decorator import ToolMetadata, get_tool_metadata, is_tool, tool
from covalt_toolset.elicitation import (
    Address,
    Answer,
    CannotAsk,
    Form,
    NotAnswered,
    Root,
    Roots,
    Sampled,
    Sampling,
)
from covalt_toolset.files import Audio, Embedded, File, Image, NoSuchFile
from covalt_toolset.invoke import ArgumentProblem, InvalidToolArguments, invoke
from covalt_toolset.result_json import ResultNotJson, to_json
from covalt_toolset.signature import ToolDescription, ToolSignatureError, describe

__all__ = [
    "ActiveContext",
    "Address",
    "Answer",
    "Answering",
    "ArgumentProblem",
    "Audio",
    "CannotAsk",
    "Embedded",
    "File",
    "Form",
    "Image",
    "InvalidToolArguments",
    "Listener",
    "NoSuchFile",
    "NotAnswered",
    "ResultNotJson",
    "Root",
    "Roots",
    "Sampled",
    "Sampling",
    "SecretNotGranted",
    "SignInNeeded",
    "SignIns",
    "ToolContext",
    "ToolDescription",
    "ToolMetadata",
    "ToolSignatureError",
    "clear_context",
    "describe",
    "get_context",
    "get_tool_metadata",
    "invoke",
    "is_tool",
    "set_context",
    "to_json",
    "tool",
]
