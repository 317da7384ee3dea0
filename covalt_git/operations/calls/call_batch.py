"""Batches: files with one call on each line, which are all checked before the first one runs.

::

    {"tool": "app-builder:write_file", "args": {"path": "a.txt", "content": "1"}, "chat": "c1"}
    {"tool": "app-builder:list_files", "id": "01a1ffa2-5317-7a45-88d1-24cc4c77f70a"}

A line without ``chat`` is a call in the chat of the batch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field, ValidationError

from covalt_git import yaml_text
from covalt_git.calls.engine import CallRequest
from covalt_git.errors import CovaltError, Problem
from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.manifests.model_errors import model_errors
from covalt_git.models.base import StrictModel
from covalt_git.operations.registry import Result
from covalt_git.problems import codes

if TYPE_CHECKING:
    from covalt_git.calls.engine import Engine
    from covalt_git.workspaces.registry import Chats

_PLACE = re.compile(r"1:([0-9]+): (.*)", re.DOTALL)


class BadBatchError(CovaltError):
    """A batch has invalid calls; none of its calls ran."""

    code = "bad_batch"
    exit_code = 2


class BatchLine(StrictModel):
    """One line of a batch."""

    tool: str
    args: JsonObject = Field(default_factory=dict)
    chat: str | None = None
    id: str | None = None
    message: str | None = None


class BatchedCall(Result):
    """A call of a batch, and the number of its line, from 1."""

    line: int
    chat_id: str
    tool_id: str
    args: JsonObject
    message_id: str | None
    call_id: str | None


class _Batch(NamedTuple):
    """Arguments of :func:`read_batch`."""

    name: str
    engine: Engine
    chats: Chats
    chat_id: str | None


def read_batch(
    text: str, name: str, *, engine: Engine, chats: Chats, chat_id: str | None
) -> list[BatchedCall]:
    """Return the calls of a batch, all of them valid now; empty lines are ignored.

    ``name`` is the file's name in problems, ``chat_id`` the chat of lines that name none.

    Raises:
        BadBatchError: with the problems of all lines.
    """
    batch = _Batch(name, engine, chats, chat_id)
    calls: list[BatchedCall] = []
    problems: list[Problem] = []
    lines_by_id: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        read = _read(batch, line, number)
        if not isinstance(read, BatchedCall):
            problems += read
            continue
        call_id = read.call_id
        # The second line would be taken for a repetition of the first one, and its own call would never run.
        if call_id is not None and lines_by_id.setdefault(call_id, number) != number:
            what = f"line {lines_by_id[call_id]} has the same id"
            problems.append(_problem(batch, line, number, "id", codes.DUPLICATE_ID, what))
        calls.append(read)
    if problems:
        wrong = len({problem.line for problem in problems})
        lines = "1 line" if wrong == 1 else f"{wrong} lines"
        raise BadBatchError(f"{lines} of {name} cannot be called; nothing ran", problems=problems)
    return calls


def _read(batch: _Batch, line: str, number: int) -> BatchedCall | list[Problem]:
    """Return the call on a line, or its problems."""
    try:
        value = canonical_json.loads(line)
    except canonical_json.NotJsonError as error:
        place = _PLACE.fullmatch(error.message)
        column, message = (int(place[1]), place[2]) if place else (1, error.message)
        message = f"this is not JSON: {message[:1].lower()}{message[1:]}"
        return [Problem(batch.name, number, column, codes.SYNTAX, message, error.hint)]
    if not isinstance(value, dict):
        message = "a call is a JSON object"
        hint = 'such as {"tool": "app-builder:list_files", "args": {}}'
        return [Problem(batch.name, number, 1, codes.BAD_VALUE, message, hint)]
    try:
        parsed = BatchLine.model_validate(value)
    except ValidationError as error:
        return [
            _problem(
                batch,
                line,
                number,
                str([*problem.loc, ""][0]),
                problem.code,
                problem.message,
                problem.hint,
            )
            for problem in model_errors(error, value, BatchLine)
        ]
    chat_id = parsed.chat or batch.chat_id
    if chat_id is None:
        hint = 'add "chat": ..., or name the chat of all lines: covalt-git call CHAT --batch FILE'
        message = "the call has no chat"
        return [_problem(batch, line, number, "", codes.MISSING_KEY, message, hint)]
    request = CallRequest(parsed.tool, parsed.args, parsed.message, parsed.id)
    key, refusal = _find_error(batch, chat_id, request)
    if refusal is None:
        return BatchedCall.of(request, line=number, chat_id=chat_id)
    if isinstance(refusal, InvalidArgumentsError):
        return [
            _problem(
                batch,
                line,
                number,
                key,
                problem.code,
                f"{problem.path}: {problem.message}",
                problem.hint,
            )
            for problem in refusal.problems
        ]
    return [_problem(batch, line, number, key, refusal.code, refusal.message, refusal.hint)]


def _find_error(
    batch: _Batch, chat_id: str, request: CallRequest
) -> tuple[str, CovaltError | None]:
    """Return the error of a call that is invalid now, and the key with the wrong value; else None.

    A call that already ran under its id is valid.
    """
    key = "chat"
    try:
        with batch.chats.open(chat_id) as chat:
            key = "id"
            # A batch with ids that stopped is started again as a whole. Lines that already ran must pass, even if the
            # tool has changed since.
            if batch.engine.earlier_outcome(chat, request) is not None:
                return "", None
        key = "tool"
        batch.engine.check(request)
    except CovaltError as error:
        return "args" if isinstance(error, InvalidArgumentsError) else key, error
    return "", None


def _problem(
    batch: _Batch, line: str, number: int, key: str, code: str, message: str, hint: str = ""
) -> Problem:
    try:
        _, column = yaml_text.load(line, batch.name).locate((key,))
    except yaml_text.YamlProblems:  # a few JSON texts are not YAML
        column = 1
    return Problem(batch.name, number, column, code, message, hint)
