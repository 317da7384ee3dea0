"""Renderers of results, and their configuration keys.

Any value can be an expression such as ``$args.path`` (the specification's section 5.2), so keys for
numbers and booleans also accept text.  Four renderers are in the specification.  The others are in
use by toolset authors, and have no configuration or only a path.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.base import PAGE_CALL, Bool, Int, StrictModel

RendererType = Literal[
    "code",
    "document",
    "markdown",
    "html",
    "frame",
    "default",
    "editor",
    "terminal",
    "file-diff",
    "patch-diff",
    "web-search",
    "todo-list",
    "task",
    "file-read",
    "key-value",
]
RENDERER_TYPES: tuple[str, ...] = get_args(RendererType)
ALIASES = {"markdown": "document"}

FILE_KEYS = {"file": "workspace", "path": "workspace", "artifact": "toolset"}
"""Keys that name a file, and the folder that their paths are relative to."""

PageCall = Annotated[str, Field(pattern=PAGE_CALL, max_length=256)]
"""A tool of the page's own toolset, by its name or its id, or a pattern of them; never an expression."""

Port = Annotated[Int, Field(ge=1024, le=65535)]


class NoConfig(StrictModel):
    """The configuration of a renderer without keys."""


class CodeConfig(StrictModel):
    """Text with syntax highlighting, optionally in an editor."""

    file: str | None = Field(None, description="File to show, relative to the workspace.")
    content: Any = Field(None, description="Text to show instead of a file.")
    language: str = Field("auto", description="Language of the text; auto: detect it.")
    editable: Bool | str = Field(default=False, description="Whether the user can edit the file.")


class DocumentConfig(StrictModel):
    """Markdown or plain text, shown as a document."""

    file: str | None = Field(None, description="File to show, relative to the workspace.")
    content: Any = Field(None, description="Text to show instead of a file.")
    editable: Bool | str = Field(default=False, description="Whether the user can edit the file.")


class HtmlConfig(StrictModel):
    """An HTML page of the toolset, with the result as ``window.__TOOL_DATA__``."""

    artifact: str | None = Field(None, description="HTML file, relative to the toolset.")
    content: Any = Field(None, description="HTML text to show instead of an artifact.")
    data: Any = Field("$return", description="Value of window.__TOOL_DATA__ in the page.")
    calls: tuple[PageCall, ...] = Field(
        (),
        description="Tools of the same toolset that the page may call in hosts of MCP Apps: names, or patterns with *.",
    )


class FrameConfig(StrictModel):
    """A page of a server that the tool has started."""

    url: str | None = Field(None, description="URL of the page.")
    port: Port | str | None = Field(None, description="Port on this machine, 1024 to 65535.")


class EditorConfig(StrictModel):
    """A file in an editor."""

    path: str | None = Field(None, description="File to edit, relative to the workspace.")
    editable: Bool | str = Field(default=True, description="Whether the user can edit the file.")


CONFIGS: dict[str, type[StrictModel]] = {
    "code": CodeConfig,
    "document": DocumentConfig,
    "markdown": DocumentConfig,
    "html": HtmlConfig,
    "frame": FrameConfig,
    "editor": EditorConfig,
}


class Renderer(StrictModel):
    """The renderer of a tool's results, with its configuration."""

    type: RendererType
    config: JsonObject = Field(default_factory=dict)


def config_model(renderer: str) -> type[StrictModel]:
    return CONFIGS.get(renderer, NoConfig)
