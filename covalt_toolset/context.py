"""The call that is running: which workspace, chat and toolset a tool works for.

The context travels in a ``contextvars`` variable, so it follows ``async`` code and
``asyncio.to_thread``; a bare thread starts without one, as Python has it.
"""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from covalt_toolset.callbacks import Listener, LogLevel, Nobody
from covalt_toolset.elicitation import (
    Address,
    Answer,
    Form,
    Kind,
    Question,
    Root,
    Roots,
    Sampled,
    Sampling,
)
from covalt_toolset.secret_names import Secrets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from types import TracebackType


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """One call, as the tool sees it.

    Attributes:
        workspace: the folder that the tool reads and writes; its state after the call is kept.
        chat_id: the chat whose workspace this is.
        toolset_id: the toolset that the tool belongs to.
        toolset_dir: the toolset's files, with its ``assets/``: a read-only copy.
        call_id: this call.
        message_id: the message that asked for the call, if one did.
        extra: whatever else the caller hands to the tool.
        secrets: the values that this toolset declared and the project granted, by name.
        listener: who hears of :meth:`progress` and :meth:`log`, and answers what is asked.
    """

    workspace: Path
    chat_id: str
    toolset_id: str
    toolset_dir: Path
    call_id: str
    message_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=lambda: Secrets({}))
    listener: Listener = field(default_factory=Nobody, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Whatever mapping came, it does not show its values, and says what is missing.
        object.__setattr__(self, "secrets", Secrets(self.secrets))

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more; a tool that looks may still tidy up.

        One that does not look, or takes too long, is ended.
        """
        return self.listener.cancelled

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell whoever follows the call how far it has come: ``progress(3, 10, "page 3")``."""
        self.listener.progress(done, total, message)

    def log(self, message: str, level: LogLevel = "info") -> None:
        """Tell whoever follows the call something; it is kept in the record, as what is printed."""
        self.listener.log(level, message)

    def can_ask(self, kind: Kind) -> bool:
        """Tell whether whoever made the call can be asked: by ``form`` or ``url``, ``sampling``, ``roots``."""
        return kind in self.listener.kinds

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask several things at once, each under a key; return their answers by the same keys.

        Waits until all are answered; the call's time limit stands still meanwhile.

        Raises:
            CannotAsk: where nobody is there who could answer one of them.
            NotAnswered: where nobody has answered in time.
            ValueError: for a form that is more than flat fields, or asks for a secret.
        """
        answers = self.listener.ask({key: one.as_json() for key, one in questions.items()})
        return {key: one.read(answers[key]) for key, one in questions.items()}

    def elicit(self, message: str, schema: Any, *, key: str = "answer") -> Answer[Any]:
        """Have a person fill in a form: ``elicit("Which city?", City).content.name``.

        Raises:
            CannotAsk: and what else :meth:`ask` raises.
        """
        answer: Answer[Any] = self.ask({key: Form(message, schema)})[key]
        return answer

    def elicit_url(self, message: str, url: str, *, key: str = "answer") -> Answer[None]:
        """Have a person open an address; that they agree is not that they are done there.

        Raises:
            CannotAsk: and what else :meth:`ask` raises.
        """
        answer: Answer[None] = self.ask({key: Address(message, url)})[key]
        return answer

    def sample(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        key: str = "sample",
        **more: Any,
    ) -> Sampled:
        """Have the client's model go on: ``sample("Name a color", max_tokens=10).text``.

        ``more`` are further parameters of MCP's sampling, such as ``temperature``.

        Raises:
            CannotAsk: and what else :meth:`ask` raises.
        """
        sampled: Sampled = self.ask({key: Sampling(messages, max_tokens, system_prompt, more)})[key]
        return sampled

    def roots(self, *, key: str = "roots") -> tuple[Root, ...]:
        """Return the folders that the client works in.

        Raises:
            CannotAsk: and what else :meth:`ask` raises.
        """
        roots: tuple[Root, ...] = self.ask({key: Roots()})[key]
        return roots

    def path(self, relative: str | PathLike[str], *, follow_links: bool = False) -> Path:
        """Return a path inside the workspace; the file need not exist.

        A path that a symbolic link leads to another place of the workspace is refused: an approval
        rule compares the path that the caller gives.  ``follow_links`` is for a tool's own paths.

        This guards against mistakes and against what a model was talked into; the sandbox that the
        tool runs in is the wall against hostile code.

        Raises:
            ValueError: for an absolute path, for one that leads out of the workspace by ``..`` or by
                a symbolic link, and for one that a symbolic link leads elsewhere.
        """
        wanted = Path(relative)
        if wanted.is_absolute():
            raise ValueError(
                f"{str(relative)!r} is an absolute path, give one relative to the workspace"
            )
        try:
            root = self.workspace.resolve()
            found = (root / wanted).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a zero byte
            raise ValueError(f"{str(relative)!r} is not a path that can be followed") from error
        if not found.is_relative_to(root):
            raise ValueError(f"{str(relative)!r} leads out of the workspace")
        if not follow_links and found != root / os.path.normpath(wanted):
            real = found.relative_to(root).as_posix()
            raise ValueError(f"{str(relative)!r} leads to {real!r} by a link: give that path")
        return self.workspace / found.relative_to(root)


_current: ContextVar[ToolContext | None] = ContextVar("covalt_toolset_context", default=None)


@dataclass(frozen=True)
class ActiveContext:
    """The result of :func:`set_context`; as a context manager it puts back what was before."""

    context: ToolContext
    _token: Token[ToolContext | None] = field(repr=False)

    def __enter__(self) -> ToolContext:
        return self.context

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.reset(self._token)


def get_context() -> ToolContext:
    """Return the context of the call that is running.

    Raises:
        RuntimeError: where no call is running.
    """
    context = _current.get()
    if context is None:
        raise RuntimeError(
            "get_context() works only while a tool runs; "
            "in a test, call set_context(workspace=tmp_path) before the tool"
        )
    return context


@overload
def set_context(context: ToolContext, /) -> ActiveContext: ...


@overload
def set_context(
    *,
    workspace: str | PathLike[str],
    chat_id: str = ...,
    toolset_id: str = ...,
    toolset_dir: str | PathLike[str] = ...,
    call_id: str = ...,
    message_id: str | None = ...,
    extra: Mapping[str, Any] | None = ...,
    secrets: Mapping[str, str] | None = ...,
    listener: Listener | None = ...,
) -> ActiveContext: ...


def set_context(
    context: ToolContext | None = None,
    /,
    *,
    workspace: str | PathLike[str] | None = None,
    chat_id: str = "chat",
    toolset_id: str = "toolset",
    toolset_dir: str | PathLike[str] = ".",
    call_id: str = "call",
    message_id: str | None = None,
    extra: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    listener: Listener | None = None,
) -> ActiveContext:
    """Make ``context`` the one that :func:`get_context` returns, or one of the given values.

    It stays until :func:`clear_context`, or to the end of a ``with`` statement.

    Raises:
        TypeError: without a context and without a workspace.
    """
    if context is None:
        if workspace is None:
            raise TypeError("set_context() needs a ToolContext or workspace=")
        context = ToolContext(
            workspace=Path(workspace),
            chat_id=chat_id,
            toolset_id=toolset_id,
            toolset_dir=Path(toolset_dir),
            call_id=call_id,
            message_id=message_id,
            extra=extra or {},
            secrets=secrets or {},
            listener=listener or Nobody(),
        )
    return ActiveContext(context, _current.set(context))


def clear_context() -> None:
    """Forget the context; :func:`get_context` then fails, as it does outside of a call."""
    _current.set(None)
