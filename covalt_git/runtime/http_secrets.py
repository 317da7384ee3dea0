"""The references of one request, looked up late: only declared names, and each one remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.secret_values import Mask

if TYPE_CHECKING:
    from covalt_git.references import Reference
    from covalt_git.secret_values import SecretStore


class SecretMissingError(CovaltError):
    """A request needs a value that nobody set, or that its toolset never declared."""

    code = "secret_missing"


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
            self.used[name] = value
            return value
        if reference.default is None:
            where = f", or add it to {self.store.file}" if self.store.file else ""
            raise SecretMissingError(
                f"{name!r} is not set", hint=f"export {name}=...{where} as {name}=..."
            )
        return reference.default or None

    @property
    def mask(self) -> Mask:
        """What hides the values that were given away."""
        return Mask(self.used.values())
