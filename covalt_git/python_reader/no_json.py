"""Types of which pydantic makes no value from JSON, so that no call can pass a parameter that has them."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Final

from covalt_git.python_reader.modules import ModuleMember
from covalt_git.python_reader.names import UnknownError
from covalt_git.python_reader.reader import parse_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.python_reader.modules import Module
    from covalt_git.python_reader.reader import TypeReader

NO_JSON: Final = frozenset(
    {
        *(f"builtins.{name}" for name in ("BaseException", "Exception", "OSError", "ValueError")),
        *(f"builtins.{name}" for name in ("bytearray", "memoryview", "range", "slice", "type")),
        *(f"collections.{name}" for name in ("ChainMap", "UserDict", "UserList", "UserString")),
        *("datetime.timezone", "datetime.tzinfo", "io.BytesIO", "io.StringIO", "logging.Logger"),
        *("re.Match", "sqlite3.Connection", "sqlite3.Cursor", "types.FunctionType"),
        *("types.ModuleType", "types.SimpleNamespace"),
        *(f"typing.{name}" for name in ("AsyncIterable", "AsyncIterator", "Awaitable", "BinaryIO")),
        *(f"typing.{name}" for name in ("Callable", "Container", "Coroutine", "IO", "ItemsView")),
        *(f"typing.{name}" for name in ("Iterator", "KeysView", "LiteralString", "Match")),
        *(f"typing.{name}" for name in ("Never", "NoReturn", "NotRequired", "Required")),
        *(f"typing.{name}" for name in ("Reversible", "Sized", "SupportsFloat", "SupportsInt")),
        *(f"typing.{name}" for name in ("TextIO", "TypeGuard", "Unpack", "ValuesView")),
    }
)
"""Types of the standard library that pydantic refuses for an argument; it accepts ``type[X]``."""

_ADDS_NO_SCHEMA: Final = frozenset(
    {
        *("abc.ABC", "builtins.object", "typing.Generic", "typing.Protocol"),
        *(f"builtins.{name}" for name in ("bytes", "dict", "float", "int", "list", "set", "str")),
        *(f"builtins.{name}" for name in ("Exception", "RuntimeError", "ValueError")),
    }
)
"""Bases to whose subclasses pydantic gives no schema."""

_OF_EACH_MODULE: Final = {"__file__", "__name__", "__package__", "__path__", "__spec__"}
_OWN_SCHEMA: Final = ("__get_pydantic_", "__get_validators__", "__pydantic_")
_MOST_BASES: Final = 20


def is_plain_class(reader: TypeReader, definition: ModuleMember, depth: int = 0) -> bool:
    """Return whether a class is surely one without a schema: none of its bases, decorators or methods gives it one."""
    node = definition.node
    if not isinstance(node, ast.ClassDef) or node.decorator_list or node.keywords:
        return False
    # Source that is not run may have a class among its own bases.
    if depth > _MOST_BASES or _has_own_schema(node):
        return False
    inner = reader.within(definition.module)
    for base in node.bases:
        origin = base.value if isinstance(base, ast.Subscript) else base
        target = inner.resolve(origin)
        if isinstance(target, ModuleMember):
            if not is_plain_class(reader, target, depth + 1):
                return False
        elif inner.origin(origin) not in _ADDS_NO_SCHEMA:
            return False
    return True


def _has_own_schema(node: ast.ClassDef) -> bool:
    names = [
        part.id if isinstance(part, ast.Name) else part.name
        for part in ast.walk(node)
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Name))
    ]
    return any(name.startswith(_OWN_SCHEMA) for name in names)


def missing_names(annotation: ast.expr | None, module: Module) -> Iterator[str]:
    """Yield the names in an annotation that neither its module nor Python defines.

    Those of a function or a comprehension in it are of their own scope, so such an annotation yields nothing.
    """
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = parse_quoted(annotation.value)
        except UnknownError:
            return
    # The star import may define any name.
    if annotation is None or module.names.has_star:
        return
    parts = list(ast.walk(annotation))
    if any(isinstance(part, (ast.Lambda, ast.comprehension, ast.NamedExpr)) for part in parts):
        return
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    defined = module.names.bindings.keys() | vars(builtins).keys() | _OF_EACH_MODULE
    yield from (name for name in names if name not in defined)
