"""Check of a toolset's prompts and resources: files exist, expressions are valid, URIs are unique."""

from __future__ import annotations

import mimetypes
from typing import TYPE_CHECKING

from covalt_git.checks.overrides import check_named_file
from covalt_git.errors import MOST_LISTED, Problem, listed, nearest_name
from covalt_git.models.sources.skill_entry import SCHEME
from covalt_git.problems import codes
from covalt_git.templating.expressions import expressions
from covalt_git.templating.uri_templates import BadUriTemplateError, UriTemplate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.toolset_files import BundleFiles
    from covalt_git.models.prompts import Prompt, PromptMessage, Resource
    from covalt_git.models.toolset_manifest import ToolsetManifest

    Manifest = Reading[ToolsetManifest]

# A toolset with a resource of such a URI could hide the skill or the page of another toolset.
_RESERVED = ("covalt-git:", "ui:", f"{SCHEME}:")
"""Reserved URI schemes: those of workspaces, pages and skills."""


def check_prompts(reading: Manifest, files: BundleFiles) -> Iterator[Problem]:
    """Find problems of the prompts and resources of a manifest."""
    manifest = reading.valid
    for position, prompt in enumerate(manifest.prompts):
        yield from _check_prompt(reading.below("prompts", position), prompt, files)
    positions: dict[str, int] = {}
    for position, resource in enumerate(manifest.resources):
        here = reading.below("resources", position)
        yield from _check_resource(here, resource, files)
        uri = resource.uri or resource.uri_template or ""
        if positions.setdefault(uri, position) != position:
            at = ("uri" if resource.uri else "uri_template",)
            other = manifest.resources[positions[uri]].id
            message = f"the resource {other!r} already has the URI {uri!r}"
            yield here.problem(codes.DUPLICATE_ID, at, message, hint="remove or rename one of them")


def _check_prompt(reading: Manifest, prompt: Prompt, files: BundleFiles) -> Iterator[Problem]:
    names = [argument.name for argument in prompt.arguments]
    yield from _check_twice(reading.below("arguments"), names)
    for position, message in enumerate(prompt.messages):
        here = reading.below("messages", position)
        texts = {"text": message.text, "file": message.file, "resource": message.resource}
        for key, text in texts.items():
            yield from _check_expressions(here.below(key), text, names)
        yield from _check_file(here, message.file, files)
        if message.file is not None and message.resource is None and not _is_media(message):
            words = f"{message.file!r} is neither an image nor audio"
            hint = "add the URI of the embedded file: resource: handbook://style"
            yield here.problem(codes.BAD_VALUE, ("file",), words, hint=hint)


def _is_media(message: PromptMessage) -> bool:
    kind = message.mime_type or mimetypes.guess_type(message.file or "")[0] or ""
    return kind.startswith(("image/", "audio/"))


def _check_resource(reading: Manifest, resource: Resource, files: BundleFiles) -> Iterator[Problem]:
    key = "uri" if resource.uri is not None else "uri_template"
    uri = resource.uri or resource.uri_template or ""
    if uri.startswith(_RESERVED):
        message = f"the URI scheme {uri.partition(':')[0]}: is reserved for covalt-git"
        hint = "use a scheme for the toolset: handbook://style"
        yield reading.problem(codes.BAD_VALUE, (key,), message, hint=hint)
    variables: tuple[str, ...] = ()
    if resource.uri_template is not None:
        try:
            variables = UriTemplate.parse(resource.uri_template).variables
        except BadUriTemplateError as error:
            # Its variables are unknown, so the checks below would report each use.
            yield reading.problem(codes.BAD_VALUE, (key,), error.message, hint=error.hint)
            return
    names = [variable.name for variable in resource.variables]
    yield from _check_twice(reading.below("variables"), names)
    for position, name in enumerate(names):
        if name not in variables:
            at, message = ("variables", position, "name"), f"the URI has no variable {{{name}}}"
            hint = _suggestion(name, variables) or "write a uri_template with {name}"
            yield reading.problem(codes.UNKNOWN_ARGUMENT, at, message, hint=hint)
    for field, text in (("text", resource.text), ("file", resource.file)):
        yield from _check_expressions(reading.below(field), text, variables)
    yield from _check_file(reading, resource.file, files)


def _check_twice(reading: Manifest, names: Sequence[str]) -> Iterator[Problem]:
    for position, name in enumerate(names):
        if name in names[:position]:
            at, message = (position, "name"), f"{name!r} already has an entry"
            yield reading.problem(
                codes.DUPLICATE_ID, at, message, hint="remove or rename one of them"
            )


def _check_expressions(
    reading: Manifest, text: str | None, names: Collection[str]
) -> Iterator[Problem]:
    for expression in expressions(text):
        if expression.root == "args" and len(expression.path) == 1 and expression.path[0] in names:
            continue
        hint = (
            _suggestion(".".join(expression.path), names) or "declare the argument; $$ is a dollar"
        )
        if expression.root == "args" and expression.path and expression.path[0] in names:
            name, *rest = expression.path
            hint = f"write {'.'.join(['${args.' + name + '}', *rest])}"
        message = f"{expression.text} does not name an argument"
        yield reading.problem(codes.UNKNOWN_EXPRESSION, (), message, hint=hint)


def _suggestion(name: str, names: Collection[str]) -> str:
    near = nearest_name(name, names)
    if near:
        return f"did you mean {near!r}?"
    return f"known here: {listed(list(names), MOST_LISTED)}" if names else ""


def _check_file(reading: Manifest, path: str | None, files: BundleFiles) -> Iterator[Problem]:
    # The arguments of the request decide which file such a path names.
    if path is not None and not any(expressions(path)):
        yield from check_named_file(reading, ("file",), path, files)
