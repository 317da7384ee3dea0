"""Type annotations resolved for pydantic, with unsupported types replaced.

Pydantic does not support ``Collection``, nor ``typing.TypedDict`` before Python 3.12.  It validates the
items of an ``Iterable`` lazily.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Union

import typing_extensions

if TYPE_CHECKING:
    from collections.abc import Callable

_replacements: dict[Any, Any] = {}
"""The replacement of each ``typing.TypedDict``, so that a schema defines it only once."""


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature of ``function``, with annotations that can be unresolved names.

    Raises:
        ValueError: for a function in C without a signature.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format  # noqa: PLC0415 - new in 3.14

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def resolve(annotation: Any, *, names: dict[str, Any]) -> Any:
    """Return the type of an annotation, which can be a string.

    ``names`` are the globals of the function's module.

    Raises:
        NameError: for a name that is not in ``names``.
        SyntaxError: for a string that is not Python.
    """
    # Each annotation by itself: of a whole function, one name that does not exist would be an error for all.
    carrier = types.SimpleNamespace(__annotations__={"it": annotation})
    hints = typing.get_type_hints(carrier, globalns=names, include_extras=True)
    return readable(hints["it"])


def written_name(annotation: Any) -> str:
    """Return the text of an unresolved annotation; empty for a type."""
    text = getattr(annotation, "__forward_arg__", annotation)
    return text if isinstance(text, str) else ""


def readable(annotation: Any) -> Any:
    """Return an annotation with the types replaced that pydantic does not support."""
    if sys.version_info < (3, 12) and typing.is_typeddict(annotation):
        return _replacements.get(annotation) or _replacement(annotation)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if (origin or annotation) in (Collection, Iterable):
        return types.GenericAlias(list, (readable(parts[0]) if parts else Any,))
    if origin is Annotated:
        return Annotated[(readable(parts[0]), *parts[1:])]
    replaced = tuple(readable(part) for part in parts)
    if all(new is old for new, old in zip(replaced, parts, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return Union[replaced]  # noqa: UP007 - a union of a tuple has no other spelling
    return origin[replaced]


def _replacement(original: Any) -> Any:
    make: Any = typing_extensions.TypedDict
    replacement = make(original.__name__, {})
    # Stored before its keys are read, as one of them can contain the same type.
    _replacements[original] = replacement
    replacement.__doc__ = original.__doc__
    replacement.__module__ = original.__module__
    hints = typing.get_type_hints(original, include_extras=True)
    required = {key for key, hint in hints.items() if _is_required(key, hint, original)}
    replacement.__annotations__ = {key: readable(_bare(hint)) for key, hint in hints.items()}
    replacement.__required_keys__ = frozenset(required)
    replacement.__optional_keys__ = frozenset(hints.keys() - required)
    if config := getattr(original, "__pydantic_config__", None):
        replacement.__pydantic_config__ = config
    return replacement


def _is_required(key: str, hint: Any, original: Any) -> bool:
    """Return whether a key is required; ``__required_keys__`` ignores qualifiers in strings."""
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return key in original.__required_keys__


def _bare(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        return typing.get_args(hint)[0]
    return hint
