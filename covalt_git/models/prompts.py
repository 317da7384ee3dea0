"""Prompts and resources that a toolset gives: texts and files that are there to be read, and run nothing.

They are what MCP calls by these names (specification, "Prompts" and "Resources").
"""

from dataclasses import dataclass
from typing import Annotated, Generic, Literal, Self, TypeVar

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from covalt_git.models.base import ARGUMENT, MEDIA_TYPE, URI, Bool, StrictModel, Text, ToolName

ArgumentName = Annotated[str, StringConstraints(pattern=ARGUMENT, max_length=64)]
MediaType = Annotated[str, StringConstraints(pattern=MEDIA_TYPE)]
Uri = Annotated[str, StringConstraints(pattern=URI)]


class TemplateVariable(StrictModel):
    """What is known of one variable of a resource's address."""

    name: ArgumentName = Field(description="Its name in uri_template.")
    values: tuple[str, ...] = Field((), description="What it may be, offered while it is typed.")


class PromptArgument(StrictModel):
    """What a prompt is filled in with: always a text."""

    name: ArgumentName = Field(description="Its name: $args.name in the messages.")
    description: str = Field("", description="What it is, for people.")
    required: Bool = Field(default=False, description="Whether there is no prompt without it.")
    values: tuple[str, ...] = Field((), description="What it may be, offered while it is typed.")
    ask: str | None = Field(
        None, description="The question that a person is asked where it was not given."
    )


class PromptMessage(StrictModel):
    """One message of a prompt: a text, or a file of the toolset.

    One that names an argument which was not given is left out.  With ``resource``, the text or file is
    embedded under that address; without it, a file is an image or a sound.
    """

    role: Literal["user", "assistant"] = Field("user", description="Who says it.")
    text: str | None = Field(None, description="What is said; may hold $args.name.")
    file: str | None = Field(None, description="A file of the toolset: assets/diagram.png.")
    resource: str | None = Field(
        None, description="Address that the text or file is embedded under; may hold $args.name."
    )
    mime_type: MediaType | None = Field(
        None, description="Its media type, if its name is not enough."
    )

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        _check_content(self.text, self.file, "a message")
        return self


class Prompt(StrictModel):
    """Messages for a model, which a person chooses and fills in."""

    id: ToolName = Field(description="Name of the prompt within the toolset.")
    name: Text | None = Field(None, description="Name shown to people.")
    description: str = Field("", description="What it is good for.")
    arguments: tuple[PromptArgument, ...] = Field((), description="What it is filled in with.")
    messages: tuple[PromptMessage, ...] = Field(description="What it says.")


class Resource(StrictModel):
    """Something to read at an address of the toolset's own, or at every address of a form."""

    id: ToolName = Field(description="Name of the resource within the toolset.")
    uri: Uri | None = Field(None, description="Its address: handbook://style.")
    uri_template: Uri | None = Field(
        None, description="Its addresses: handbook://{chapter}; {+path} may hold a /."
    )
    name: Text | None = Field(None, description="Name shown to people.")
    description: str = Field("", description="What is in it.")
    mime_type: MediaType | None = Field(
        None, description="Its media type, if its name is not enough."
    )
    text: str | None = Field(None, description="What it says; may hold $args.name of uri_template.")
    file: str | None = Field(
        None, description="A file of the toolset; may hold $args.name of uri_template."
    )
    variables: tuple[TemplateVariable, ...] = Field(
        (), description="What is known of the variables of uri_template."
    )

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.uri is None) == (self.uri_template is None):
            hint = "add uri: handbook://style" if self.uri is None else "keep one of them"
            raise PydanticCustomError(
                "one_of", "a resource has either 'uri' or 'uri_template'", {"hint": hint}
            )
        _check_content(self.text, self.file, "a resource")
        return self


def _check_content(text: str | None, file: str | None, what: str) -> None:
    if (text is None) == (file is None):
        hint = "add text: ..., or file: assets/..." if text is None else "keep one of them"
        raise PydanticCustomError(
            "one_of", "{what} has either 'text' or 'file'", {"what": what, "hint": hint}
        )


What = TypeVar("What", Prompt, Resource)


@dataclass(frozen=True, slots=True)
class Given(Generic[What]):
    """A prompt or a resource as a toolset gives it.

    Attributes:
        id: one as tools have, ``handbook:style``.
        digest: of all files of the toolset.
    """

    id: str
    toolset_id: str
    digest: str
    what: What
