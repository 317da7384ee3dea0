"""Reader of a YAML file into its model, which reports problems with line and column."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError

from covalt_git import yaml_text
from covalt_git.errors import Problem, in_order
from covalt_git.json_values import leaves
from covalt_git.json_values.canonical_json import MAX_EXACT_INTEGER
from covalt_git.manifests.model_errors import Loc, model_errors, name_place
from covalt_git.models.base import StrictModel
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Model = TypeVar("Model", bound=StrictModel)

_MANY_DIGITS = re.compile(r"[0-9]{16}|0[xo][0-9a-fA-F]{14}")
"""Matches every integer beyond 2^53; the values of a text without a match need not be searched."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[Model]):
    """A file that was read: its model if it is valid, its document if it is YAML, and its problems.

    ``above`` is put before the places of further problems; see :meth:`below`.
    """

    path: str
    value: Model | None
    document: yaml_text.YamlDocument | None
    problems: tuple[Problem, ...] = ()
    above: Loc = ()

    @property
    def valid(self) -> Model:
        """The model of a file that is known to be valid."""
        assert self.value is not None
        return self.value

    def below(self, *loc: str | int) -> Reading[Model]:
        """Return the same file, in which places begin at ``loc``."""
        return replace(self, above=(*self.above, *loc))

    def problem(
        self,
        code: str,
        loc: Loc,
        message: str,
        *,
        hint: str = "",
        key: bool = False,
        severity: str = "error",
    ) -> Problem:
        """Return a problem at a place of this file."""
        loc = (*self.above, *loc)
        line, col = self.document.locate(loc, key=key) if self.document else (0, 0)
        place = name_place(self.document.data if self.document else None, loc)
        words = f"{place}: {message}" if place else message
        return Problem(self.path, line, col, code, words, hint, severity, place)

    def warning(
        self, code: str, loc: Loc, message: str, *, hint: str, key: bool = False
    ) -> Problem:
        """Return a problem of a part that can be used all the same."""
        return self.problem(code, loc, message, hint=hint, key=key, severity="warning")


def read_yaml(file: Path, display_path: str, model: type[Model]) -> Reading[Model]:
    """Read ``file`` as ``model``.  The content never raises an error.

    ``display_path`` is the path for messages, relative to the project.
    """
    return _read(lambda: yaml_text.load_file(file, display_path), display_path, model)


def read_text(text: bytes, display_path: str, model: type[Model], **limits: int) -> Reading[Model]:
    """Read the content of a file like :func:`read_yaml`; ``limits`` are those of :func:`yaml_text.load`."""
    return _read(lambda: yaml_text.load(text, display_path, **limits), display_path, model)


def _read(
    load: Callable[[], yaml_text.YamlDocument], display_path: str, model: type[Model]
) -> Reading[Model]:
    try:
        return check(load(), model)
    except yaml_text.YamlProblems as error:
        from covalt_git.credentials.leaks import masked  # noqa: PLC0415 - its expressions take 20 ms

        # A syntax error quotes its line, which can have a token.
        problems = tuple(
            replace(problem, message=masked(problem.message), hint=masked(problem.hint))
            for problem in error.problems
        )
        return Reading(display_path, None, None, problems)


def check(document: yaml_text.YamlDocument, model: type[Model]) -> Reading[Model]:
    """Return the model of a document, or its problems."""
    beyond = tuple(_beyond_json(document))
    if beyond:
        return Reading(document.path, None, document, beyond)
    try:
        return Reading(document.path, model.model_validate(document.data), document)
    except ValidationError as error:
        return Reading(document.path, None, document, _problems(document, (), error, model))


def part_problems(
    reading: Reading[Any], value: Any, model: type[StrictModel]
) -> tuple[Problem, ...]:
    """Return the problems of a part of a file that has its own model."""
    if reading.document is not None:
        try:
            model.model_validate(value)
        except ValidationError as error:
            return _problems(reading.document, reading.above, error, model)
    return ()


def _problems(
    document: yaml_text.YamlDocument, above: Loc, error: ValidationError, model: type[StrictModel]
) -> tuple[Problem, ...]:
    from covalt_git.credentials.leaks import credentials, masked  # noqa: PLC0415 - as above

    data = document.data
    for part in above:
        data = data[part]
    # Masked here, because every command prints problems, and a message quotes the wrong value.
    values = {credential.value for credential in credentials(document.text)}
    problems = []
    for model_error in model_errors(error, data, model):
        loc = (*above, *model_error.loc)
        line, col = document.locate(loc, key=model_error.at_key)
        place = name_place(document.data, loc[:-1] if model_error.at_key else loc)
        words = f"{place}: {model_error.message}" if place else model_error.message
        problems.append(
            Problem(
                *(document.path, line, col, model_error.code),
                *(masked(words, values), masked(model_error.hint, values)),
                item=masked(place, values),
            )
        )
    return in_order(problems)


def _beyond_json(document: yaml_text.YamlDocument) -> Iterator[Problem]:
    """Find integers beyond 2^53, which some JSON parsers round, so that digests would differ."""
    if not _MANY_DIGITS.search(document.text):
        return
    reading: Reading[StrictModel] = Reading(document.path, None, document)
    for loc, value in leaves(document.data):
        if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
            message = "integers beyond 2^53 lose digits in many JSON parsers"
            hint = "write it in quotes"
            with contextlib.suppress(OverflowError):  # more than 308 digits
                hint = f"write {float(value)!r}, or write it in quotes"
            yield reading.problem(codes.NOT_JSON, loc, message, hint=hint)


def shown_path(file: Path, root: Path) -> str:
    """Return the path of a file relative to the project, for messages and the index."""
    return file.relative_to(root).as_posix()
