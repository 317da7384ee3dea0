"""Context of the running call: workspace, chat, toolset, secrets and callbacks.

It is a context variable (``contextvars``), which ``async`` code and ``asyncio.to_thread`` inherit; new
threads do not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from covalt_toolset.callbacks import Listener, LogLevel, NoListener
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from types import TracebackType


class SecretNotGranted(KeyError):  # noqa: N818 - a public name of the SDK
    """The tool has no secret with that name."""

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        has = f"available: {', '.join(available)}" if available else "it has no secrets"
        super().__init__(f"this call has no secret {name!r} ({has})")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would put the sentence in quotes


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

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self._values)})"


@dataclass(frozen=True)
class SignIns:
    """The sign-ins of the toolset: the entries of ``auth`` in its ``toolset.yaml``."""

    _listener: Listener = field(repr=False)

    def get_token(self, name: str) -> str:
        """Return the access token of a sign-in, renewed if it was about to expire: ``auth.get_token("github")``.

        Get it for each request: it may expire during a long call.

        Raises:
            SignInNeeded: without a sign-in, or if the tool may not have the token.
        """
        return self._listener.token(name)


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The context of one call.

    Attributes:
        workspace: the folder of the chat's files; changes are committed after the call.
        chat_id: the id of the chat.
        toolset_id: the id of the tool's toolset.
        toolset_dir: a read-only copy of the toolset's files, with its ``assets/``.
        call_id: the id of the call.
        message_id: the id of the message that caused the call, if any.
        extra: additional data from the caller.
        secrets: the secrets that the toolset declares and the project grants, by name.
        listener: receives progress reports and log messages, and answers requests.
    """

    workspace: Path
    chat_id: str
    toolset_id: str
    toolset_dir: Path
    call_id: str
    message_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=lambda: Secrets({}))
    listener: Listener = field(default_factory=NoListener, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Secrets hides the values in its repr, and has a clear error for missing secrets.
        object.__setattr__(self, "secrets", Secrets(self.secrets))

    @property
    def auth(self) -> SignIns:
        """The sign-ins of the toolset."""
        return SignIns(self.listener)

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled.  A tool that checks this can clean up and return.

        A tool that does not end in time is killed.
        """
        return self.listener.cancelled

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress: ``progress(3, 10, "page 3")``."""
        self.listener.progress(done, total, message)

    def log(self, message: str, level: LogLevel = "info") -> None:
        """Log a message, which is also recorded with the printed output of the call."""
        self.listener.log(level, message)

    def can_ask(self, kind: Kind) -> bool:
        """Return whether the caller can answer ``form``, ``url``, ``sampling`` or ``roots`` requests."""
        return kind in self.listener.kinds

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Send several requests at once, and return their answers by the same keys.

        Waits for all answers; this time does not count for the call's time limit.

        Raises:
            CannotAsk: if no user or client can answer one of the requests.
            NotAnswered: if an answer did not arrive in time.
            ValueError: for a form with fields that are not flat, or that asks for a secret.
        """
        answers = self.listener.ask(
            {key: question.as_json() for key, question in questions.items()}
        )
        return {key: question.read(answers[key]) for key, question in questions.items()}

    def elicit(self, message: str, schema: Any, *, key: str = "answer") -> Answer[Any]:
        """Show a form to the user: ``elicit("Which city?", City).content.name``.

        Raises:
            CannotAsk: and the other errors of :meth:`ask`.
        """
        answer: Answer[Any] = self.ask({key: Form(message, schema)})[key]
        return answer

    def elicit_url(self, message: str, url: str, *, key: str = "answer") -> Answer[None]:
        """Ask the user to open a URL; after accepting, they may not have finished there.

        Raises:
            CannotAsk: and the other errors of :meth:`ask`.
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
        """Call the client's model: ``sample("Name a color", max_tokens=10).text``.

        ``more`` are other parameters of MCP's sampling, such as ``temperature``.

        Raises:
            CannotAsk: and the other errors of :meth:`ask`.
        """
        sampled: Sampled = self.ask({key: Sampling(messages, max_tokens, system_prompt, more)})[key]
        return sampled

    def roots(self, *, key: str = "roots") -> tuple[Root, ...]:
        """Return the folders that the client works in.

        Raises:
            CannotAsk: and the other errors of :meth:`ask`.
        """
        roots: tuple[Root, ...] = self.ask({key: Roots()})[key]
        return roots

    def path(self, relative: str | PathLike[str], *, follow_links: bool = False) -> Path:
        """Return the absolute path of a file in the workspace, which need not exist.

        Paths through symbolic links are rejected, because approval rules compare the path of the caller.
        ``follow_links`` allows links within the workspace, for the tool's own paths.

        This check protects from mistakes and from prompt injection.  The sandbox of the tool protects from
        malicious code.

        Raises:
            ValueError: for an absolute path, a path outside of the workspace, or one through a link.
        """
        requested = Path(relative)
        if requested.is_absolute():
            raise ValueError(f"{str(relative)!r} is absolute; use a path relative to the workspace")
        try:
            # As the system reads it: in link/../x, ".." is the folder above the link's target.
            root = self.workspace.resolve()
            target = (root / requested).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # circular links, a NUL character
            raise ValueError(f"{str(relative)!r} is not a valid path") from error
        if not target.is_relative_to(root):
            raise ValueError(f"{str(relative)!r} is outside of the workspace")
        # A link `x -> .env` of an earlier call would let a tool change .env under a name that no approval rule has.
        if not follow_links and target != root / os.path.normpath(requested):
            real = target.relative_to(root).as_posix()
            raise ValueError(f"{str(relative)!r} is a link to {real!r}; use that path")
        # Below the workspace as callers know it, which can itself be behind a link, such as /tmp on macOS.
        return self.workspace / target.relative_to(root)


_current: ContextVar[ToolContext | None] = ContextVar("covalt_toolset_context", default=None)


@dataclass(frozen=True)
class ActiveContext:
    """The result of :func:`set_context`; as a context manager, it restores the previous context."""

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
    """Return the context of the running call.

    Raises:
        RuntimeError: if no call is running.
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
    """Set the context that :func:`get_context` returns: ``context``, or a new one with these values.

    It is valid until :func:`clear_context`, or to the end of a ``with`` statement.

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
            listener=listener or NoListener(),
        )
    return ActiveContext(context, _current.set(context))


def clear_context() -> None:
    """Remove the context; :func:`get_context` then raises an error, as outside of a call."""
    _current.set(None)
