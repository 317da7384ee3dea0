"""The renderers that a tool may ask for, and the configuration keys each of them reads.

Any value may be an expression such as ``$args.path`` (the specification's section 5.2), so a key
that wants a number or a yes is also allowed a text.  Beyond the specification's four stand those
that toolset authors already use; they have no configuration or a path.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.base import Bool, Int, StrictModel

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
"""Keys that name a file, and where it is looked for."""

Port = Annotated[Int, Field(ge=1024, le=65535)]


class NoConfig(StrictModel):
    """A renderer that reads no key."""


class CodeConfig(StrictModel):
    """Highlighted text, with an editor where asked."""

    file: str | None = Field(None, description="File to show, relative to the workspace.")
    content: Any = Field(None, description="Text to show instead of a file.")
    language: str = Field("auto", description="Language of the text; auto finds it.")
    editable: Bool | str = Field(default=False, description="Whether a person may edit the file.")


class DocumentConfig(StrictModel):
    """Markdown or plain text, shown as a document."""

    file: str | None = Field(None, description="File to show, relative to the workspace.")
    content: Any = Field(None, description="Text to show instead of a file.")
    editable: Bool | str = Field(default=False, description="Whether a person may edit the file.")


class HtmlConfig(StrictModel):
    """An HTML page of the toolset with the result injected."""

    artifact: str | None = Field(None, description="HTML file, relative to the toolset.")
    content: Any = Field(None, description="HTML text to show instead of an artifact.")
    data: Any = Field("$return", description="What the page finds in window.__TOOL_DATA__.")


class FrameConfig(StrictModel):
    """A page that a tool's own server shows."""

    url: str | None = Field(None, description="Address of the page.")
    port: Port | str | None = Field(None, description="Port on this machine, 1024 to 65535.")


class EditorConfig(StrictModel):
    """A file in an editor."""

    path: str | None = Field(None, description="File to edit, relative to the workspace.")
    editable: Bool | str = Field(default=True, description="Whether a person may edit the file.")


CONFIGS: dict[str, type[StrictModel]] = {
    "code": CodeConfig,
    "document": DocumentConfig,
    "markdown": DocumentConfig,
    "html": HtmlConfig,
    "frame": FrameConfig,
    "editor": EditorConfig,
}


class Renderer(StrictModel):
    """Which renderer shows a tool's result, and with what."""

    type: RendererType
    config: JsonObject = Field(default_factory=dict)


def config_model(renderer: str) -> type[StrictModel]:
    """Return the model of a renderer's configuration."""
    return CONFIGS.get(renderer, NoConfig)
