"""Models of scripts: one that has not ended, its settled calls, its allowances, and the record of one that has.

A script that has not ended is the commit at ``refs/covalt/scripts/<id>``.  Its tree has the file ``script``
(:class:`OpenScript`) and, in the folder ``calls``, a file for each settled call (:class:`SettledCall`).
"""

from typing import Any, Literal

from pydantic import Field

from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.models.base import Digest, Int, StrictModel, Time
from covalt_git.models.calls import CallError, ToolsetVersion

Language = Literal["python", "javascript"]

SCRIPT_REFS = "refs/covalt/scripts/"
"""Beginning of the refs of scripts that have not ended."""

MOST_ALLOWED = 100
"""Most further calls that an approval can allow."""


class LoggedLine(StrictModel):
    """A line that a script logged or printed."""

    level: str
    message: str


class ScriptFailure(StrictModel):
    """Why a script failed, and at which of its lines."""

    code: str
    message: str
    line: Int | None = None


class ScriptedCall(StrictModel):
    """A call of a script for its reader; a call of a tool that needs no record has no id.

    ``named`` are the tools that the answer of a search, a description or an unknown path named.
    """

    path: str
    args: JsonObject
    status: str
    call_id: str | None = None
    named: tuple[str, ...] | None = None

    def as_json(self) -> JsonObject:
        """Return the call for callers: ``named`` is left out where it has no meaning."""
        return self.model_dump(mode="json", exclude={"named"} if self.named is None else None)


class PausedCall(StrictModel):
    """The call for whose approval a script waits; ``url`` is the page of the approval, if a server runs."""

    execution_id: str
    tool_path: str
    message: str
    args: JsonObject
    url: str | None = None


class ScriptResult(StrictModel):
    """The result of a script: its value or its error, its calls and its logs; or the call for which it waits."""

    success: bool
    value: Any = None
    error: ScriptFailure | None = None
    calls: tuple[ScriptedCall, ...] = ()
    logs: tuple[LoggedLine, ...] = ()
    paused: PausedCall | None = None
    unreached: tuple[str, ...] = Field(
        (), description="Paths of tools that the source names and that were not called."
    )

    def as_json(self) -> JsonObject:
        """Return the result for callers: keys without a value are left out."""
        fields = self.model_dump(mode="json")
        fields["calls"] = [call.as_json() for call in self.calls]
        if self.error is not None or self.paused is not None:
            del fields["value"]
        if not self.unreached:
            del fields["unreached"]
        return {
            name: value for name, value in fields.items() if name == "value" or value is not None
        }


class SettledCall(StrictModel):
    """A call of a script that has ended, or an effect without record that has begun.

    The answer of a call with a record is that of its commit.  The others are stored here, because the next run of the
    script must get the same: those of searches, reads of files, and calls that were refused.
    """

    index: Int
    path: str = Field(description="As the script names it.")
    tool_id: str | None = None
    digest: Digest = Field(description="Digest of the arguments.")
    args: JsonObject
    line: Int | None = None
    call_id: str | None = Field(None, description="The call, if a commit records it.")
    status: Literal["begun", "success", "error"]
    answer: Any = None
    error: CallError | None = None
    waived_by: str | None = Field(None, description="The approval that allowed it in advance.")
    named: tuple[str, ...] | None = Field(
        None, description="Paths of the tools that the answer names, if it called none."
    )


class Allowance(StrictModel):
    """Further calls of one tool in one script that a reviewer allowed with the approval of a call.

    ``same`` are the arguments that must be those of the approved call; all others can differ.
    """

    execution_id: str = Field(description="The approval with which it was given.")
    tool_id: str
    definition_digest: Digest
    script_digest: Digest
    branch: str
    by: str = Field(description="Principal of the script.")
    role: str | None = None
    decided_by: str
    left: Int
    same: JsonObject = Field(default_factory=dict)


class OpenScript(StrictModel):
    """A script that has not ended."""

    v: Literal[1] = 1
    id: str = Field(description="The id of its call of workspace:run_script.")
    chat_id: str
    branch: str
    tool_id: str
    request: JsonObject = Field(description="The arguments of the call: script, language and args.")
    by: str
    role: str | None = None
    protocol: Literal["mcp", "http"] | None = None
    started_at: Time
    started_ms: Int
    seed: Int
    message_id: str | None = None
    base: str | None = None
    toolset: ToolsetVersion
    names: tuple[str, ...] = Field(
        (),
        description="Paths of the tools that its source names: who may not see them may not see it.",
    )
    logs: tuple[LoggedLine, ...] = ()
    allowances: tuple[Allowance, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of what runs: the source, its language and its arguments."""
        return canonical_json.digest(
            {"args": self.args, "language": self.language, "source": self.source}
        )

    @property
    def source(self) -> str:
        return str(self.request["script"])

    @property
    def language(self) -> Language:
        return "javascript" if self.request.get("language") == "javascript" else "python"

    @property
    def args(self) -> JsonObject:
        args: JsonObject = self.request.get("args", {})
        return args


def lines_of(source: str) -> list[str]:
    """Return the lines of a script as its interpreter counts them.

    Other line breaks, such as U+2028 in a text, would move the calls that a reviewer sees to other lines.
    """
    return [line.removesuffix("\r") for line in source.removesuffix("\n").split("\n")]


class ScriptRecord(StrictModel):
    """What the record of an ended script has beyond its result, so that it can be run against its records."""

    branch: str
    language: Language
    started_ms: Int
    seed: Int
    calls: tuple[SettledCall, ...] = ()
