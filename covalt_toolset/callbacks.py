"""Callbacks of a running tool: progress, log messages, cancellation, and requests to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from covalt_toolset.elicitation import KINDS, CannotAsk, Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LogLevel = Literal["debug", "info", "warning", "error"]


class SignInNeeded(Exception):  # noqa: N818 - a public name of the SDK
    """The tool needs a sign-in that the user does not have, or that it may not use."""


class Listener(Protocol):
    """The callbacks of a call; methods are called from any thread."""

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled."""
        ...

    @property
    def kinds(self) -> Collection[Kind]:
        """The kinds of requests that the caller can answer."""
        ...

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Receive a progress report."""
        ...

    def log(self, level: LogLevel, message: str) -> None:
        """Receive a log message."""
        ...

    def token(self, name: str) -> str:
        """Return the token of a sign-in of the toolset.

        Raises:
            SignInNeeded: without a sign-in, or if the tool may not have the token.
        """
        ...

    def ask(self, questions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        """Return the MCP results for MCP requests, by the same keys.

        Raises:
            CannotAsk: if no user or client can answer one of them.
            NotAnswered: if an answer did not arrive in time.
        """
        ...


class NoListener:
    """Listener that ignores all reports and answers no requests, as in a test."""

    cancelled = False
    kinds: Collection[Kind] = ()

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Ignore a progress report."""

    def log(self, level: LogLevel, message: str) -> None:
        """Ignore a log message."""

    def token(self, name: str) -> str:
        """Raise an error: there is no sign-in."""
        raise SignInNeeded(f"there is no sign-in {name!r} here")

    def ask(self, questions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        """Raise an error for any request."""
        raise CannotAsk(f"there is no user or client that can answer {', '.join(questions)}")


class Answering(NoListener):
    """Listener with fixed answers by key and fixed tokens, for tests of tools that send requests or use sign-ins.

    ::

        answers = {"city": {"action": "accept", "content": {"name": "Paris"}}}
        with set_context(workspace=tmp_path, listener=Answering(answers)):
            ...
    """

    kinds = KINDS

    def __init__(
        self,
        answers: Mapping[str, Mapping[str, Any]] | None = None,
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        self._answers = answers or {}
        self._tokens = tokens or {}

    def token(self, name: str) -> str:
        """Return the fixed token.

        Raises:
            SignInNeeded: for any other name.
        """
        if name not in self._tokens:
            raise SignInNeeded(f"this test has no token for {name!r}")
        return self._tokens[name]

    def ask(self, questions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        """Return the fixed answers."""
        missing = [key for key in questions if key not in self._answers]
        if missing:
            raise CannotAsk(f"this test has no answer for {missing[0]!r}")
        return {key: self._answers[key] for key in questions}
