"""The schema that a Python tool's own process says, which reading its source can only come near to.

Models of pydantic, imports and computed types mean what running them makes of them.  So the process
is asked, behind the walls that the tool runs behind, and what it says is kept in ``data/cache`` for
as long as the toolset's files stay the same.  It is shown beside what was read, and decides nothing.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from covalt_git import __version__, canonical_json, json_schema
from covalt_git.calls import python_calls
from covalt_git.calls.differences import Difference, differences
from covalt_git.calls.engine import limits_of
from covalt_git.calls.preconditions import check_runnable
from covalt_git.errors import CovaltError
from covalt_git.models.base import JsonObject, StrictModel
from covalt_git.runtime import sandbox
from covalt_git.system import atomic_write

if TYPE_CHECKING:
    from covalt_git.calls.engine import Engine
    from covalt_git.catalog.catalog import Found

_MAKER = f"covalt-git {__version__}, Python {sys.version_info.major}.{sys.version_info.minor}"


class NotDescribedError(CovaltError):
    """A tool's process could not say what it takes."""

    code = "not_described"
    http_status = 409


class _Said(StrictModel):
    """What a process said, as it is kept."""

    digest: str
    entrypoint: str
    by: str
    input_schema: JsonObject
    output_schema: JsonObject | None


@dataclass(frozen=True, slots=True)
class ExactSchema:
    """What a tool's own process says it takes and returns.

    Attributes:
        input_schema: JSON Schema of the arguments.
        output_schema: JSON Schema of the result; None where nothing is promised.
        differences: where the schema that is in force is another, by JSON path: ``then`` is that
            one, which stands in the manifest or was read from the source, ``now`` the process's.
        cached: whether it was said before, so that nothing ran now.
    """

    input_schema: JsonObject
    output_schema: JsonObject | None
    differences: tuple[Difference, ...]
    cached: bool


def exact_schema(engine: Engine, tool_id: str) -> ExactSchema:
    """Ask a Python tool's process for its schema, unless it has said it of these files before.

    Raises:
        UnknownNameError: when the principal can see no such tool; and what else keeps one from
            calling it: BrokenToolsetError, DisabledToolError, SandboxNeededError, CannotInstallError.
        NotDescribedError: when it is no Python, cannot be imported, or says what is no schema.
    """
    found = engine.catalog.find_callable(tool_id)
    tool = found.tool
    if tool.kind != "python":
        raise NotDescribedError(
            f"{tool.tool_id} is no Python: its schema is what the manifest says",
            hint=f"covalt-git tool schema {tool.tool_id}",
        )
    check_runnable(tool, found.toolset.state, at=engine.level)
    file = engine.root / "data" / "cache" / "schemas" / tool.toolset_id / f"{tool.id.name}.json"
    said = _kept(file, found)
    cached = said is not None
    if said is None:
        said = _asked(engine, found)
        with suppress(OSError):  # a cache that cannot be written is only slower
            atomic_write.replace(file, said.model_dump_json() + "\n")
    differing = differences(tool.input_schema, said.input_schema)
    return ExactSchema(said.input_schema, said.output_schema, differing, cached)


def _kept(file: Path, found: Found) -> _Said | None:
    """Return what was said of exactly these files; whatever else stands there is none."""
    try:
        said = _Said.model_validate(canonical_json.loads(file.read_bytes()))
    except (OSError, ValidationError, canonical_json.NotJsonError):
        return None
    same = (said.digest, said.entrypoint, said.by)
    return said if same == (found.toolset.digest, found.tool.entrypoint, _MAKER) else None


def _asked(engine: Engine, found: Found) -> _Said:
    tool = found.tool
    with tempfile.TemporaryDirectory(prefix="covalt-schema-") as workspace:
        outcome = python_calls.describe(
            found,
            Path(workspace),
            level=engine.level or sandbox.level(),
            limits=limits_of(tool, engine.config),
            follower=engine.follower,
        )
    if outcome.error is not None:
        error = outcome.error
        where = f" ({error.traceback.splitlines()[-1]})" if error.traceback else ""
        raise NotDescribedError(
            f"{tool.tool_id} cannot say its schema: {error.message}{where}", hint=error.hint
        )
    result: Any = outcome.result
    try:
        said = _Said(
            digest=found.toolset.digest, entrypoint=str(tool.entrypoint), by=_MAKER, **result
        )
    except (TypeError, ValidationError):
        raise NotDescribedError(f"{tool.tool_id} says something that is no schema") from None
    for schema in (said.input_schema, said.output_schema or {}):
        for place, message in json_schema.schema_problems(schema):
            at = json_schema.json_path(place)
            raise NotDescribedError(f"{tool.tool_id} says a schema that is none: {at}: {message}")
    return said
