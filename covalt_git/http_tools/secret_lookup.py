"""Lookup of the references of one request: declared secrets only, each use recorded.

Errors name the reference and never contain its value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from covalt_git.credentials.values import SecretStore
    from covalt_git.templating.references import Reference

HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
"""Characters that every server accepts in a header."""

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class SecretMissingError(CovaltError):
    """A request needs a secret that is not set, or that its toolset does not declare."""

    code = "secret_missing"


class UnfitSecretError(CovaltError):
    """The value of a secret cannot be sent in its part of the request."""

    code = "secret_unfit"


@dataclass(slots=True)
class Lookup:
    """Values of the references of one call; ``used`` contains the values that were returned, by name."""

    declared: frozenset[str]
    store: SecretStore
    used: dict[str, str] = field(default_factory=dict, repr=False)

    def lookup(self, reference: Reference) -> str | None:
        """Return the value of a reference; None if it is not set and its default is empty.

        Raises:
            SecretMissingError: if it is not declared, or not set and without a default.
            UnfitSecretError: if the value is not text.
            SecretsFileError: if the file of secrets cannot be used.
        """
        name = reference.name
        # The user grants the declared names; without this, a template could send any variable of the environment.
        if name not in self.declared:
            raise SecretMissingError(
                f"the toolset does not declare the secret {name!r}",
                hint=f"add it to toolset.yaml: secrets: [{name}]",
            )
        value = self.store.value(name, reference.place)
        if value:
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                raise self._unfit(reference, "is not UTF-8")
            # Grants and the mask are about what is sent, not about what is declared.
            self.used[name] = value
            return value
        if reference.default is None:
            where = f", or add it to {self.store.file}" if self.store.file else ""
            hint = f"export {name}=...{where} as {name}=..."
            raise SecretMissingError(f"{name!r} is not set", hint=hint)
        return reference.default or None

    def in_header(self, reference: Reference) -> str | None:
        """Return the value of a reference in a header.

        Raises:
            UnfitSecretError: if a header cannot carry it, and as :meth:`lookup`.
        """
        value = self.lookup(reference)
        if reference.name not in self.used or HEADER_VALUE.fullmatch(value or ""):
            return value
        is_control = _CONTROL.search(value or "")
        what = (
            "a line break or another control character"
            if is_control
            else "a letter that is not ASCII"
        )
        raise self._unfit(reference, f"cannot be sent in a header, because it contains {what}")

    def _unfit(self, reference: Reference, why: str) -> UnfitSecretError:
        name = reference.name
        source = "environment" if reference.place == "env" else self.store.source(name)
        hint = {
            "environment": f"set it again: export {name}=...",
            "file": f"set it again in {self.store.file}: {name}=...",
        }.get(source or "", f"covalt-git secret check {name}")  # which runs the secret command
        return UnfitSecretError(f"the secret {name!r} {why}", hint=hint)

    @property
    def mask(self) -> Mask:
        """Mask of the values that were returned."""
        return Mask(self.used.values())
