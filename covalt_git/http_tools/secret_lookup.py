"""The references of one request, looked up late: only declared names, and each one remembered.

A value that cannot be sent is told by its name; what it is stands in no message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError
from covalt_git.http_tools.templates import HEADER_VALUE

if TYPE_CHECKING:
    from covalt_git.credentials.values import SecretStore
    from covalt_git.templating.references import Reference


_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class SecretMissingError(CovaltError):
    """A request needs a value that nobody set, or that its toolset never declared."""

    code = "secret_missing"


class UnfitSecretError(CovaltError):
    """The value of a secret cannot be sent where a request has it: whoever set it sets it again."""

    code = "secret_unfit"


@dataclass(slots=True)
class Lookup:
    """Looks references up for one call; ``used`` are the values that it gave away, by name."""

    declared: frozenset[str]
    store: SecretStore
    used: dict[str, str] = field(default_factory=dict, repr=False)

    def look_up(self, reference: Reference) -> str | None:
        """Return what a reference stands for; None where its default says that nothing does.

        Raises:
            SecretMissingError: when nothing is set and there is no default, or it is not declared.
            UnfitSecretError: when what is set is no text.
            SecretsFileError: when the file of secrets cannot be used.
        """
        name = reference.name
        if name not in self.declared:
            raise SecretMissingError(
                f"the toolset does not declare the secret {name!r}",
                hint=f"add it to toolset.yaml: secrets: [{name}]",
            )
        value = self.store.value(name, reference.place)
        if value:
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                raise self._unfit(reference, "is not UTF-8")
            self.used[name] = value
            return value
        if reference.default is None:
            where = f", or add it to {self.store.file}" if self.store.file else ""
            raise SecretMissingError(
                f"{name!r} is not set", hint=f"export {name}=...{where} as {name}=..."
            )
        return reference.default or None

    def in_header(self, reference: Reference) -> str | None:
        """Return what a reference in a header stands for.

        Raises:
            UnfitSecretError: when no header can carry it; and as :meth:`look_up`.
        """
        value = self.look_up(reference)
        if reference.name not in self.used or HEADER_VALUE.fullmatch(value or ""):
            return value
        what = "a letter that is not ASCII"
        if _CONTROL.search(value or ""):
            what = "a line break or another control character"
        raise self._unfit(reference, f"cannot be sent in a header, for it holds {what}")

    def _unfit(self, reference: Reference, why: str) -> UnfitSecretError:
        name, file = reference.name, self.store.file
        source = "environment" if reference.place == "env" else self.store.source(name)
        again = f"covalt-git secret check {name}"  # which asks the command
        if source == "environment":
            again = f"set it again: export {name}=..."
        elif source == "file":
            again = f"set it again in {file}: {name}=..."
        return UnfitSecretError(f"the secret {name!r} {why}", hint=again)

    @property
    def mask(self) -> Mask:
        """What hides the values that were given away."""
        return Mask(self.used.values())
