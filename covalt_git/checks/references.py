"""Check of references such as ``${NAME}``: their syntax, and that ``secrets`` declares them.

A bad reference is a warning in an MCP server, a source or a login, which resolves its references later.  It
is an error in an HTTP request (:mod:`covalt_git.checks.http_requests`).  A manifest without the key ``secrets``, as in
the specification's examples, need not declare them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covalt_git.errors import MOST_LISTED, Problem, listed, nearest_name
from covalt_git.problems import codes
from covalt_git.templating.references import AUTH, malformed, references, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.manifests.reading import Reading
    from covalt_git.models.auth_entries import Auth
    from covalt_git.models.toolset_manifest import ToolsetManifest

_FORMS = (
    "write ${NAME}, ${NAME:-default}, ${env:NAME}, ${secret:NAME} or ${auth:ID}; $$ is a dollar"
)
_BARE = re.compile(r"(?<!\$)\$(\w+)")
_KEYS = ("mcp_servers", "sources", "auth")


def reference_problems(
    reading: Reading[ToolsetManifest],
    value: object,
    declared: tuple[str, ...] | None,
    *,
    severity: str = "error",
    env_is_granted: bool = False,
    auth: Iterable[Auth] = (),
) -> Iterator[Problem]:
    """Find malformed and undeclared references in ``value``, which is at the place of ``reading``.

    References to entries other than those of ``auth`` are errors, whatever the toolset declares.

    With ``env_is_granted``, variables of the environment need no declaration, because a grant covers them.
    """
    for loc, text in texts(value):
        for wrong in malformed(text):
            message = f"{wrong[:60]!r} is not a valid reference"
            yield reading.problem(codes.BAD_REFERENCE, loc, message, hint=_FORMS, severity=severity)
        # One search of the text for all names; one for each name takes the square of the work
        # (test_twice_as_many_unknown_names_take_twice_the_work).
        bare = set(_BARE.findall(text)) if declared else ()
        for name in (declared or ()) if bare else ():
            # Only a declared name: $HOME in a command may be meant as it is written.
            if name in bare:
                message = f"'${name}' is not replaced by the secret"
                hint = f"write ${{{name}}}, or $${name} for the text"
                yield reading.warning(codes.BAD_REFERENCE, loc, message, hint=hint)
    declared_names = frozenset(declared or ())
    entries = {entry.reference_name: entry.id for entry in auth}
    for loc, reference in references(value):
        if reference.place == "auth":
            if reference.name not in entries:
                short = reference.name.removeprefix(AUTH)
                near = nearest_name(short, entries.values())
                hint = f"did you mean ${{auth:{near}}}?" if near else "add it to auth"
                message = f"auth has no entry {short!r}"
                yield reading.problem(codes.BAD_REFERENCE, loc, message, hint=hint)
            continue
        if declared is None or reference.name in declared_names:
            continue
        if env_is_granted and reference.place == "env":
            continue
        near = nearest_name(reference.name, declared)
        hint = f"add {reference.name} to secrets"
        if len(declared) < MOST_LISTED:
            hint = f"add a line: secrets: [{listed([*declared, reference.name], MOST_LISTED)}]"
        message = f"the toolset does not declare {reference.name!r}"
        hint = f"did you mean {near!r}?" if near else hint
        yield reading.problem(codes.BAD_REFERENCE, loc, message, hint=hint, severity=severity)


def check_references(reading: Reading[ToolsetManifest]) -> Iterator[Problem]:
    """Find malformed and undeclared references of a manifest outside of its HTTP requests."""
    if reading.document is None:
        return
    manifest = reading.valid
    declared = manifest.secrets if "secrets" in manifest.model_fields_set else None
    for key in _KEYS:
        value = reading.document.data.get(key, [])
        yield from reference_problems(
            reading.below(key),
            value,
            declared,
            severity="warning",
            env_is_granted=key == "mcp_servers",
            auth=manifest.auth,
        )
