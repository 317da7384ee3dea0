"""Who is told what happens while a tool runs."""

from __future__ import annotations

from typing import Literal, Protocol

LogLevel = Literal["debug", "info", "warning", "error"]


class Listener(Protocol):
    """What a runtime hears of a call, and says about it; each may be asked from any thread."""

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more."""
        ...

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Hear how far the tool has come."""
        ...

    def log(self, level: LogLevel, message: str) -> None:
        """Hear what the tool has to say."""
        ...


class Nobody:
    """Hears nothing and cancels nothing, as in a test."""

    cancelled = False

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Pass over it."""

    def log(self, level: LogLevel, message: str) -> None:
        """Pass over it."""
