"""The arguments of one call, as the conditions of many rules read them: each path is followed once."""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from covalt_git.access import argument_values
from covalt_git.access.argument_paths import keys_with_dots, readings, readings_of, schemas_of
from covalt_git.access.argument_values import ANY_VALUE, MISSING
from covalt_git.json_values.pointer import BadReferenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.access.argument_paths import Names
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool


class CallArguments:
    """The arguments of a call, and the tools that get them: an alias and the tool that it calls, or one tool.

    The caller chooses how many values the arguments have, and the project how many rules and patterns.  So each path
    is followed once, and not by each of them.
    """

    def __init__(self, called: Sequence[Tool], args: JsonObject) -> None:
        self.called = called
        self._args = args
        self._possible: dict[tuple[str, bool], list[Any]] = {}
        self._replaced: dict[str, bool] = {}
        self._values: dict[str, list[Any]] = {}

    def possible(self, path: str, *, compares_parts: bool = False) -> list[Any]:
        """Return the values that a tool may find at a path; any value if a schema cannot be followed.

        With ``compares_parts``, they are compared with lists and objects.
        """
        key = (path, compares_parts)
        if key not in self._possible:
            values: list[Any] = []
            for names in self._readings(path):
                values += self._possible_at(names, compares_parts=compares_parts)
            self._possible[key] = (
                [ANY_VALUE] if any(value is ANY_VALUE for value in values) else values
            )
        return self._possible[key]

    def values(self, path: str) -> list[Any]:
        """Return the values that the arguments certainly have at a path; empty if it may also have others.

        These are several if a key with dots has the same path as a key in an object.
        """
        if path not in self._values:
            every = self._readings(path)
            values = [argument_values.value_at(self._args, names) for names in every]
            missing = [
                names for names, value in zip(every, values, strict=True) if value is MISSING
            ]
            is_sure = len(every) == 1 or not any(
                self._possible_at(names, compares_parts=False) for names in missing
            )
            self._values[path] = []
            for names, value in zip(every, values, strict=True):
                if is_sure and value is not MISSING:
                    self._values[path] += self._sent(names, value)
        return self._values[path]

    def may_get_another(self, path: str) -> bool:
        """Return whether a tool may not get the value at a path, as :func:`.argument_values.may_get_another`."""
        if path not in self._replaced:
            self._replaced[path] = any(
                argument_values.may_get_another(tool, self._args, names)
                for names in self._readings(path)
                for tool in self.called
            )
        return self._replaced[path]

    def may_exist(self, path: str) -> bool:
        """Return whether the call may have an argument at a path.

        A path through a list is also about each item, and an object may have the argument under another name.
        """
        every = self._readings(path)
        return self.may_get_another(path) or any(_has(self._args, names) for names in every)

    def may_lack(self, path: str) -> bool:
        """Return whether the call may have no argument at a path, or null, which HTTP tools do not send."""
        if self.may_get_another(path):
            return True
        return any(
            argument_values.value_at(self._args, names) in (MISSING, None)
            for tool in self.called
            for names in readings_of(tool, path)
        )

    def _sent(self, names: Names, value: Any) -> list[Any]:
        """Return a value as each tool gets it: the number, if its schema wants an integer that is written as text."""
        if not isinstance(value, str) or not value.lstrip("-").isdigit():
            return [value]
        # It loads the validator, and commands that call nothing ask for access too.
        from covalt_git.json_values.json_schema import (  # noqa: PLC0415
            BadSchemaError,
            with_integers,
        )

        sent = []
        for tool in self.called:
            try:
                args = with_integers(tool.input_schema, self._args)
            except BadSchemaError:
                args = self._args
            of_tool = argument_values.value_at(args, names)
            # JSON does not have it exactly as a number.
            sent.append(Decimal(of_tool) if isinstance(of_tool, int) else of_tool)
        return sent

    def _possible_at(self, names: Names, *, compares_parts: bool) -> list[Any]:
        values: list[Any] = []
        try:
            for tool in self.called:
                values += argument_values.possible_values(
                    tool, self._args, names, compares_parts=compares_parts
                )
        except BadReferenceError:  # a default that cannot be read may be the value
            return [ANY_VALUE]
        return values

    def _readings(self, path: str) -> list[Names]:
        return readings(path, self._keys_with_dots if "." in path else ())

    @cached_property
    def _keys_with_dots(self) -> set[str]:
        schemas = [schema for tool in self.called for schema in schemas_of(tool)]
        return keys_with_dots(self._args, *schemas)


def _has(value: Any, names: Sequence[str]) -> bool:
    if not names:
        return True
    if isinstance(value, list) and not names[0].isdigit():
        return any(_has(item, names) for item in value)
    part = argument_values.value_at(value, names[:1])
    return part is not MISSING and _has(part, names[1:])
