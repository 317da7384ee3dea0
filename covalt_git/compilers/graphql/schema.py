"""Model of a GraphQL schema: its types with their fields, as the compiler needs them.

Types are texts as in SDL, ``[Film!]!``, so that no step recurses as deep as a type is nested.  A schema is read without
the checks of graphql-core, which refuses a whole document for one fault: a fault is reported, and costs only its part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from covalt_git.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Place = Callable[[], tuple[int, int]]
    """Returns line and column, from 1; computed only for the parts that are reported."""

Kind = Literal["scalar", "object", "interface", "union", "enum", "input"]
RootKind = Literal["query", "mutation", "subscription"]

ROOTS: Final[dict[RootKind, str]] = {
    "query": "Query",
    "mutation": "Mutation",
    "subscription": "Subscription",
}
"""The kinds of operations and the default names of their types (section 3.3.1)."""

SCALARS: Final = ("Int", "Float", "String", "Boolean", "ID")
UPLOAD: Final = "Upload"
"""The scalar of files in the multipart convention, which JSON cannot carry."""

DEPRECATED: Final = "No longer supported"
"""The default reason of ``@deprecated`` (section 3.13.3)."""

BAD_PART: Final = "CG222"
"""Code of a part of a document that is wrong or not supported, and is left out."""

MOST_FAULTS: Final = 1000
NO_DEFAULT: Final = object()


@dataclass(slots=True)
class InputValue:
    """An argument of a field, or a field of an input object; ``default`` is a JSON value or ``NO_DEFAULT``."""

    type: str
    description: str
    deprecated: str | None
    default: Any
    place: Place

    @property
    def is_required(self) -> bool:
        """Whether it is non-null and has no default."""
        return self.type.endswith("!") and self.default is NO_DEFAULT


@dataclass(slots=True)
class OutputField:
    """A field of an object or an interface."""

    type: str
    description: str
    deprecated: str | None
    args: dict[str, InputValue]
    place: Place


@dataclass(slots=True)
class NamedType:
    """A type; ``values`` are the descriptions of an enum's values, ``members`` the types of a union."""

    kind: Kind
    description: str = ""
    fields: dict[str, OutputField] = field(default_factory=dict)
    inputs: dict[str, InputValue] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    specified_by: str | None = None
    is_one_of: bool = False

    @property
    def is_composite(self) -> bool:
        """Whether its values are selected by fields."""
        return self.kind in {"object", "interface", "union"}


class GraphQLSchema:
    """A schema and its faults; ``broken`` are the reasons why fields cannot be used, by type and field."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.types: dict[str, NamedType] = {name: NamedType("scalar") for name in SCALARS}
        self.roots: dict[RootKind, str] = {}
        self.broken: dict[tuple[str, str], str] = {}
        self._faults: dict[tuple[int, int, str], Problem] = {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The faults by their places."""
        return tuple(sorted(self._faults.values()))

    def add_fault(self, place: Place, message: str) -> None:
        """Add a warning at a place."""
        if len(self._faults) < MOST_FAULTS:
            line, col = place()
            fault = Problem(self.path, line, col, BAD_PART, message, severity="warning")
            self._faults[line, col, message] = fault

    def complete(self, *, names_roots: bool) -> None:
        """Make the types consistent: each type that a part names exists, and can be where it is.

        ``names_roots`` says whether the document itself names the types of operations.
        """
        for kind, name in ROOTS.items():
            if not names_roots and name in self.types:
                self.roots.setdefault(kind, name)
        for kind, name in list(self.roots.items()):
            if name not in self.types or self.types[name].kind != "object":
                self.add_fault(_beginning, f"the type of {kind} is {name!r}, which is no object")
                del self.roots[kind]
        for name, described in list(self.types.items()):
            for field_name, output in list(described.fields.items()):
                label = f"{name}.{field_name}"
                faults = [self._fault_of(output.type, output.place, label, is_input=False)]
                for arg_name, arg in output.args.items():
                    at = f"{label}({arg_name})"
                    faults.append(self._fault_of(arg.type, arg.place, at, is_input=True))
                if reason := next(filter(None, faults), ""):
                    self.broken[name, field_name] = reason
            for input_name, arg in list(described.inputs.items()):
                at = f"{name}.{input_name}"
                if self._fault_of(arg.type, arg.place, at, is_input=True):
                    del described.inputs[input_name]
            described.members = [
                member
                for member in described.members
                if member in self.types and self.types[member].kind == "object"
            ]

    def _fault_of(self, text: str, place: Place, label: str, *, is_input: bool) -> str:
        """Report a type that is not there, or cannot be where it is; return why a part cannot be used."""
        name = name_of(text)
        named = self.types.get(name)
        if named is None:
            self.add_fault(place, f"{label}: there is no type {name!r}; any value is accepted")
            self.types[name] = NamedType("scalar")
        elif (named.is_composite and is_input) or (named.kind == "input" and not is_input):
            what = "an argument" if is_input else "an answer"
            reason = f"{label}: {name!r} cannot be the type of {what}"
            self.add_fault(place, reason)
            return reason
        return ""


def _beginning() -> tuple[int, int]:
    return 1, 1


def described(description: str, deprecated: str | None) -> str:
    """Return a description; a deprecated part says so first."""
    text = description.strip()
    if deprecated is None:
        return text
    return f"Deprecated: {deprecated.strip()}{f' {text}' if text else ''}"


def name_of(text: str) -> str:
    """Return the name in the text of a type: ``Film`` of ``[Film!]!``."""
    return text.strip("[]!")


def reached(names: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the names, and those to which ``following`` leads from them."""
    reached_names: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached_names:
            reached_names.add(name)
            waiting += following(name)
    return reached_names
