"""Prompts and resources of a toolset: texts and files, in the terms of MCP.

Reading them runs no code.  See the MCP specification, "Prompts" and "Resources".
"""

from dataclasses import dataclass
from typing import Annotated, Generic, Literal, Self, TypeVar

from pydantic import Field, StringConstraints, model_validator

from covalt_git.models.base import (
    ARGUMENT,
    MEDIA_TYPE,
    URI,
    Bool,
    StrictModel,
    Text,
    ToolName,
    check_exactly_one,
)

ArgumentName = Annotated[str, StringConstraints(pattern=ARGUMENT, max_length=64)]
MediaType = Annotated[str, StringConstraints(pattern=MEDIA_TYPE)]
Uri = Annotated[str, StringConstraints(pattern=URI)]


class TemplateVariable(StrictModel):
    """A variable of a resource's URI template."""

    name: ArgumentName = Field(description="Name of the variable in uri_template.")
    values: tuple[str, ...] = Field((), description="Values that completion suggests.")


class PromptArgument(StrictModel):
    """An argument of a prompt, which is always a text."""

    name: ArgumentName = Field(description="Name of the argument: $args.name in the messages.")
    description: str = Field("", description="Description for users.")
    required: Bool = Field(default=False, description="Whether the argument is required.")
    values: tuple[str, ...] = Field((), description="Values that completion suggests.")
    ask: str | None = Field(
        None, description="Question for the user if the argument is missing (elicitation)."
    )


class PromptMessage(StrictModel):
    """One message of a prompt: a text, or a file of the toolset.

    A message with a missing argument is left out.  With ``resource``, the text or file is an embedded
    resource with that URI; without it, a file must be an image or audio.
    """

    role: Literal["user", "assistant"] = Field("user", description="Role of the message.")
    text: str | None = Field(None, description="Text of the message; can contain $args.name.")
    file: str | None = Field(None, description="A file of the toolset: assets/diagram.png.")
    resource: str | None = Field(
        None, description="URI of the embedded text or file; can contain $args.name."
    )
    mime_type: MediaType | None = Field(
        None, description="Media type, if the file name does not determine it."
    )

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        _check_content(self.text, self.file, "a message")
        return self


class Prompt(StrictModel):
    """Messages for a model, which the user selects and fills in."""

    id: ToolName = Field(description="Name of the prompt within the toolset.")
    name: Text | None = Field(None, description="Display name.")
    description: str = Field("", description="Description for users.")
    arguments: tuple[PromptArgument, ...] = Field((), description="Arguments of the prompt.")
    messages: tuple[PromptMessage, ...] = Field(description="Messages of the prompt.")


class Resource(StrictModel):
    """A text or file at a URI, or a template of such resources."""

    id: ToolName = Field(description="Name of the resource within the toolset.")
    uri: Uri | None = Field(None, description="URI of the resource: handbook://style.")
    uri_template: Uri | None = Field(
        None, description="URIs of the resources: handbook://{chapter}; {+path} can contain a /."
    )
    name: Text | None = Field(None, description="Display name.")
    description: str = Field("", description="Description for users and models.")
    mime_type: MediaType | None = Field(
        None, description="Media type, if the file name does not determine it."
    )
    text: str | None = Field(
        None, description="Text of the resource; can contain $args.name of uri_template."
    )
    file: str | None = Field(
        None, description="A file of the toolset; can contain $args.name of uri_template."
    )
    variables: tuple[TemplateVariable, ...] = Field(
        (), description="Variables of uri_template, for completion."
    )

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        message = "a resource must have exactly one of 'uri' and 'uri_template'"
        check_exactly_one(self.uri, self.uri_template, message, "add uri: handbook://style")
        _check_content(self.text, self.file, "a resource")
        return self


def _check_content(text: str | None, file: str | None, what: str) -> None:
    message = f"{what} must have exactly one of 'text' and 'file'"
    check_exactly_one(text, file, message, "add text: ..., or file: assets/...")


Item = TypeVar("Item", Prompt, Resource)


@dataclass(frozen=True, slots=True)
class ToolsetItem(Generic[Item]):
    """A prompt or a resource, with its toolset.

    Attributes:
        id: the id with the namespace, such as ``handbook:style``.
        digest: the digest of all files of the toolset.
    """

    id: str
    toolset_id: str
    digest: str
    what: Item
