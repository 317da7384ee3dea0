"""One permission of a project, which acts on a machine after its user has trusted it."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values import canonical_json
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from covalt_git.json_values import JsonObject

    Reach = Mapping[str, Mapping[str, str]]

_NOWHERE: Reach = MappingProxyType({})
_WHEN = " when "


class Permission(NamedTuple):
    """One permission of a project.

    Attributes:
        fact: What it permits, exactly; equal facts are the same permission.
        words: A description of the fact for users, without the names of ``reach``.
        toolset_id: The toolset that it is for; None if it is for the project.
        reach: What it is about, if that can grow and shrink: names, such as tools, and for each the digests of what
            limits it, with words for users.  A name may have a condition (:func:`conditional`).  A consent for it
            covers fewer names and more limits, too, so that a pull that narrows needs no new consent.
        apart: The names of ``reach``, without conditions, that a user has to see on lines of their own.
    """

    fact: JsonObject
    words: str
    toolset_id: str | None = None
    reach: Reach = _NOWHERE
    apart: Collection[str] = ()

    @property
    def key(self) -> str:
        """The digest of the fact, whatever its reach is."""
        return canonical_json.digest(self.fact)

    @property
    def digest(self) -> str:
        """The digest of the fact and its reach: of all that a user reviews."""
        if not self.reach:
            return self.key
        limits = {name: sorted(self.reach[name]) for name in sorted(self.reach)}
        return canonical_json.digest({"fact": self.fact, "reach": limits})

    @property
    def lines(self) -> tuple[str, ...]:
        """The words with all names that it reaches, as a user reads them before deciding.

        Whatever the words have been made of, no part of them can look like another line or be moved out of sight.
        Tools that may change something come first, each on a line of its own, because users overlook one name among a
        hundred.
        """
        texts = [f"{self.words}: {names}" for names in self._lists()] or [self.words]
        return tuple(map(_on_one_line, texts))

    @property
    def text(self) -> str:
        """The words with all names that it reaches, in the order of :attr:`lines`, on one line."""
        names = "; ".join(self._lists())
        return _on_one_line(f"{self.words}: {names}" if names else self.words)

    def beyond(self, consented: Mapping[str, Collection[str]]) -> Permission | None:
        """Return the part of it that a consent with this reach does not cover; None if the consent covers it."""
        reach = {
            name: limits
            for name, limits in self.reach.items()
            if not any(
                wider in consented and set(consented[wider]) <= set(limits)
                for wider in (name, _without_condition(name))
            )
        }
        return self._replace(reach=reach) if reach else None

    def _lists(self) -> list[str]:
        """Return each name that is apart, and lists of the other ones with the same limits."""
        names_shown = [
            name for name in sorted(filter(None, self.reach)) if not self._says_twice(name)
        ]
        apart = [name for name in names_shown if _without_condition(name) in self.apart]
        others: dict[str, list[str]] = {}
        for name in names_shown:
            if name not in apart:
                others.setdefault(self._limits(name), []).append(name)
        lists = [_in_words(name) + self._limits(name) for name in apart]
        return lists + [
            ", ".join(map(_in_words, alike)) + limits for limits, alike in others.items()
        ]

    def _says_twice(self, name: str) -> bool:
        """Return whether the same name without a condition reaches everything that this one does."""
        whole = _without_condition(name)
        return (
            whole != name
            and whole in self.reach
            and set(self.reach[whole]) <= set(self.reach[name])
        )

    def _limits(self, name: str) -> str:
        texts = sorted(filter(None, self.reach[name].values()))
        limits = " or ".join(map(_condition_in_words, texts))
        return f" except when {limits}" if limits else ""


def conditional(name: str, condition: str) -> str:
    """Return the name in a reach for a part of what ``name`` does; without a condition, for all of it."""
    return f"{name}{_WHEN}{condition}" if condition else name


def _in_words(name: str) -> str:
    """Return a name with its condition as words, for users; the name itself is part of stored consents."""
    whole, when, condition = name.partition(_WHEN)
    return whole + when + _condition_in_words(condition)


def _condition_in_words(condition: str) -> str:
    """Return the condition of a rule without the syntax of JSON; a text is quoted, so that it looks like nothing else."""
    if not condition.startswith("{"):
        return condition
    args, end = json.JSONDecoder().raw_decode(condition)
    return " and ".join(_argument_in_words(*item) for item in args.items()) + condition[end:]


def _argument_in_words(name: str, value: object) -> str:
    label = name if name.replace(".", "").isidentifier() else json.dumps(name)
    if isinstance(value, dict):
        return " and ".join(
            f"{label} {key.replace('_', ' ')} {canonical_json.dumps(inner).decode()}"
            for key, inner in value.items()
        )
    if isinstance(value, list):
        return (
            f"{label} is one of {', '.join(canonical_json.dumps(part).decode() for part in value)}"
        )
    verb = "is like" if isinstance(value, str) and "*" in value else "is"
    return f"{label} {verb} {canonical_json.dumps(value).decode()}"


def _without_condition(name: str) -> str:
    return name.partition(_WHEN)[0]


def _on_one_line(text: str) -> str:
    return display.count_spaces(display.in_line(text))
