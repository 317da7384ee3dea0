"""Who is told what happens while a tool runs, and who answers what it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from covalt_toolset.elicitation import KINDS, CannotAsk, Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LogLevel = Literal["debug", "info", "warning", "error"]


class Listener(Protocol):
    """What a runtime hears of a call, and says about it; each may be asked from any thread."""

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more."""
        ...

    @property
    def kinds(self) -> Collection[Kind]:
        """What whoever made the call can be asked."""
        ...

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Hear how far the tool has come."""
        ...

    def log(self, level: LogLevel, message: str) -> None:
        """Hear what the tool has to say."""
        ...

    def ask(self, questions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        """Return the answers to questions, both as MCP has them, by the questions' keys.

        Raises:
            CannotAsk: where nobody can answer one of them.
            NotAnswered: where nobody did.
        """
        ...


class Nobody:
    """Hears nothing, cancels nothing and answers nothing, as in a test."""

    cancelled = False
    kinds: Collection[Kind] = ()

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Pass over it."""

    def log(self, level: LogLevel, message: str) -> None:
        """Pass over it."""

    def ask(self, questions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        """Refuse."""
        raise CannotAsk(f"nobody is there who could be asked {', '.join(questions)}")


class Answering(Nobody):
    """Answers what is asked under each key with what was given for it, for tests of tools that ask.

    ::

        said = {"city": {"action": "accept", "content": {"name": "Paris"}}}
        with set_context(workspace=tmp_path, listener=Answering(said)):
            ...
    """

    kinds = KINDS

    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self._answers = answers

    def ask(self, questions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        """Return what was given."""
        missing = [key for key in questions if key not in self._answers]
        if missing:
            raise CannotAsk(f"this test has no answer to {missing[0]!r}")
        return {key: self._answers[key] for key in questions}
