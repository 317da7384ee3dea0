"""Members of the enumerations of a toolset, by class or by a call such as ``Enum("Colour", ["RED"])``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from covalt_git.python_reader.modules import ModuleMember
from covalt_git.python_reader.names import FunctionNode, UnknownError, literal

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.python_reader.reader import TypeReader

_ANY_VALUE: Final = (str, int, float, bool, type(None))
_BASES: Final[dict[tuple[str, ...], tuple[type, ...]]] = {
    ("enum.Enum",): _ANY_VALUE,
    ("enum.StrEnum",): (str,),
    ("enum.IntEnum",): (int,),
    ("builtins.str", "enum.Enum"): (str,),
    ("builtins.int", "enum.Enum"): (int,),
    ("builtins.float", "enum.Enum"): (int, float),
}
"""Bases of an Enum, and the types of members that do not change its values."""

_HOOKS: Final = frozenset({"__new__", "__init__", "_generate_next_value_"})
_MOST_BASES = 20


def constant(reader: TypeReader, expression: ast.expr) -> Any:
    """Return the JSON value of a literal, of a name of one, or of a member of an Enum.

    Raises:
        UnknownError: if it has to be computed.
    """
    expression, reader = reader.assigned(expression)
    match expression:
        case ast.Attribute(value=ast.Attribute() | ast.Subscript() as member, attr="value"):
            return _member(reader, member)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not constant(reader, operand)
        case ast.Subscript(value=container, slice=place) if _members(reader, container) is None:
            held, key = constant(reader, container), literal(place)
            is_dict = isinstance(held, dict) and isinstance(key, str)
            is_list = isinstance(held, list | str) and isinstance(key, int)
            try:
                return held[key] if is_dict or is_list else literal(expression)
            except LookupError:
                raise UnknownError from None
        case ast.Attribute() | ast.Subscript():
            return _member(reader, expression)
    return literal(expression)


def _member(reader: TypeReader, expression: ast.Attribute | ast.Subscript) -> Any:
    """Return the value of ``Colour.RED`` or ``Colour["RED"]``.

    Raises:
        UnknownError: if it is not one of an enumeration that can be read.
    """
    members = _members(reader, expression.value)
    name = expression.attr if isinstance(expression, ast.Attribute) else literal(expression.slice)
    if members is None or not isinstance(name, str) or name not in members:
        raise UnknownError
    return members[name]


def _members(reader: TypeReader, expression: ast.expr) -> dict[str, Any] | None:
    """Return the members of the enumeration that an expression names; None if it names none."""
    owner = reader.resolve(expression)
    if not isinstance(owner, ModuleMember):
        return None
    inner = reader.within(owner.module)
    return enum_members(owner, inner) if is_enum(owner, inner) else None


def is_plain_member(reader: TypeReader, expression: ast.Attribute) -> bool:
    """Return whether an expression is a member of an enumeration whose members are texts or numbers themselves."""
    owner = reader.resolve(expression.value)
    if not isinstance(owner, ModuleMember):
        return False
    return _ANY_VALUE != _types(owner, reader.within(owner.module)) != ()


def is_enum(definition: ModuleMember, reader: TypeReader) -> bool:
    """Return whether a class or the value of a call is an enumeration that can be read."""
    try:
        return bool(_types(definition, reader))
    except UnknownError:
        return False


def enum_schema(definition: ModuleMember, reader: TypeReader) -> JsonObject:
    """Return the schema of the values of an enumeration.

    Raises:
        UnknownError: if its values are computed, or no JSON.
    """
    _note_missing(definition, reader)
    values: list[Any] = []
    for value in enum_members(definition, reader).values():
        if value not in values:  # True is another name of the member 1
            values.append(value)
    if not values:
        raise UnknownError
    return reader.choice(values)


def _note_missing(definition: ModuleMember, reader: TypeReader) -> None:
    """Note that an enumeration makes members of other values, which the schema refuses first."""
    node: ast.AST | None = definition.node
    for _ in range(_MOST_BASES):
        if not isinstance(node, ast.ClassDef):
            return
        if any(getattr(part, "name", "") == "_missing_" for part in node.body):
            reader.note(f"{node.name}._missing_()", refuses_only=True)
        base = reader.resolve(node.bases[0]) if len(node.bases) == 1 else None
        node = base.node if isinstance(base, ModuleMember) else None
        reader = reader.within(base.module) if isinstance(base, ModuleMember) else reader


def enum_members(definition: ModuleMember, reader: TypeReader) -> dict[str, Any]:
    """Return the values of the members of an enumeration, by their names.

    Raises:
        UnknownError: if it is no enumeration, or its values are computed, or cannot be JSON.
    """
    bases = _bases(definition, reader)
    types = _BASES.get(bases, ())
    node = definition.node
    members = (
        _called(node, reader, types)
        if isinstance(node, ast.Call)
        else _declared(node, reader, bases)
    )
    if any(type(value) not in types for value in members.values()):
        raise UnknownError
    return members


def _types(definition: ModuleMember, reader: TypeReader) -> tuple[type, ...]:
    """Return the types that the values of an enumeration can have."""
    return _BASES.get(_bases(definition, reader), ())


def _bases(definition: ModuleMember, reader: TypeReader) -> tuple[str, ...]:
    """Return the dotted names of Python's own bases of an enumeration."""
    node = definition.node
    if isinstance(node, ast.Call):
        mixed = [keyword.value for keyword in node.keywords if keyword.arg == "type"]
        return tuple(reader.origin(base) for base in (*mixed, node.func))
    for _ in range(_MOST_BASES):
        if not isinstance(node, ast.ClassDef):
            return ()
        bases = tuple(reader.origin(base) for base in node.bases)
        if bases in _BASES:
            return bases
        # A class of the toolset without members, which adds methods to its enumerations.
        base = reader.resolve(node.bases[0]) if len(node.bases) == 1 else None
        if not isinstance(base, ModuleMember):
            return ()
        node, reader = base.node, reader.within(base.module)
        hooks = [part.name for part in getattr(node, "body", ()) if isinstance(part, FunctionNode)]
        if _HOOKS.intersection(hooks):
            raise UnknownError
    return ()


def _declared(node: ast.AST, reader: TypeReader, bases: tuple[str, ...]) -> dict[str, Any]:
    assert isinstance(node, ast.ClassDef)
    decorators = [reader.origin(decorator) for decorator in node.decorator_list]
    if node.keywords or any(decorator != "enum.unique" for decorator in decorators):
        raise UnknownError
    members: dict[str, Any] = {}
    numbered = 0
    for statement in node.body:
        if isinstance(statement, FunctionNode):
            # Such a method may give the members other values, or a schema, than the source says.
            if statement.name in _HOOKS or statement.name.startswith("__get_pydantic"):
                raise UnknownError
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if not isinstance(target, ast.Name) or target.id.startswith("_"):
                raise UnknownError
            if not _is_auto(reader, statement.value):
                members[target.id] = literal(statement.value)
            elif bases == ("enum.StrEnum",):
                members[target.id] = target.id.lower()
            elif _BASES.get(bases) == (str,):  # auto() counts, and str() makes texts of the numbers
                numbered += 1
                members[target.id] = str(numbered)
            else:
                members[target.id] = _next_number(members)
        elif not isinstance(statement, ast.Pass) and not (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ):
            raise UnknownError
    if numbered not in (
        0,
        len(members),
    ):  # what auto() makes after a text depends on Python's version
        raise UnknownError
    return members


def _is_auto(reader: TypeReader, expression: ast.expr) -> bool:
    """Return whether an expression is ``auto()``.

    Raises:
        UnknownError: if it has arguments.
    """
    if not isinstance(expression, ast.Call) or reader.origin(expression.func) != "enum.auto":
        return False
    if expression.args or expression.keywords:
        raise UnknownError
    return True


def _next_number(members: dict[str, Any]) -> int:
    """Return the value of ``auto()``: one more than the highest of the members before.

    Raises:
        UnknownError: if some of these are no numbers, or the last is not the highest.
    """
    numbers = [value for value in members.values() if type(value) is int]
    # After a lower number, Python before 3.11.4 makes one more than the lowest.
    if len(numbers) < len(members) or numbers[-1:] != sorted(numbers)[-1:]:
        raise UnknownError
    return max(numbers, default=0) + 1


def _called(call: ast.Call, reader: TypeReader, types: tuple[type, ...]) -> dict[str, Any]:
    """Return the members of ``Enum("Colour", names)``: names in a text or a list, pairs, or a dict."""
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    parameters = {"module", "qualname", "start", "type"}
    if len(call.args) != 2 or not options.keys() <= parameters:  # noqa: PLR2004
        raise UnknownError
    start = literal(options["start"]) if "start" in options else 1
    if not isinstance(start, int):
        raise UnknownError
    given = constant(reader, call.args[1])
    if isinstance(given, str):
        given = given.replace(",", " ").split()
    if isinstance(given, dict):
        return given
    if not isinstance(given, list):
        raise UnknownError
    if all(isinstance(name, str) for name in given):
        is_text = types == (str,)
        if "type" in options and is_text:  # the numbers as texts
            return {name: str(at) for at, name in enumerate(given, start)}
        return {name: name.lower() if is_text else at for at, name in enumerate(given, start)}
    pairs = [pair for pair in given if isinstance(pair, list) and len(pair) == 2]  # noqa: PLR2004
    if len(pairs) < len(given) or not all(isinstance(name, str) for name, _ in pairs):
        raise UnknownError
    return dict(pairs)
