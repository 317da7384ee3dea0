"""The granted secrets of a call, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class SecretNotGranted(KeyError):  # noqa: N818 - a public name of the SDK
    """The tool has no secret with that name."""

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        has = f"available: {', '.join(available)}" if available else "it has no secrets"
        super().__init__(f"this call has no secret {name!r} ({has})")

    def __str__(self) -> str:
        return str(self.args[0])


class Secrets(Mapping[str, str]):
    """The granted secrets; ``repr`` contains the names only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        """Return the value.

        Raises:
            SecretNotGranted: a ``KeyError``, if the call does not have the secret.
        """
        try:
            return self._values[name]
        except KeyError:
            raise SecretNotGranted(name, tuple(self._values)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self._values)})"
