"""The secrets that a call was given, by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class SecretNotGranted(KeyError):  # noqa: N818 - it names what is wrong, as authors read it
    """The tool asks for a secret that it was not given."""

    def __init__(self, name: str, given: tuple[str, ...]) -> None:
        has = f"it was given {', '.join(given)}" if given else "it was given none"
        super().__init__(
            f"the tool has no secret {name!r}, {has}; toolset.yaml names it under 'secrets', "
            f"the project grants it (covalt-git grant add TOOLSET secret {name}), and somebody sets it"
        )

    def __str__(self) -> str:
        return str(self.args[0])


class Secrets(Mapping[str, str]):
    """The granted secrets; none of them is in its ``repr``."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        """Return the value.

        Raises:
            SecretNotGranted: which is a ``KeyError``, where the call was not given it.
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
