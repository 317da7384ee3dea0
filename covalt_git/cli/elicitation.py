"""Elicitation at a terminal: the fields of a form one by one, and URLs to open.

The prompts have a thread of their own, so that the call can still be cancelled or time out.  They read
the terminal only after the user has typed a line.  Otherwise a thread that is still reading makes Python
abort at exit, or a prompt for an earlier question receives the answer to the next question.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.terminal import output
from covalt_git.elicitation.forms import BadFormError, FormField, form_fields
from covalt_git.elicitation.requests import (
    NO_RESPONDENT,
    InvalidAnswerError,
    NoOpenQuestionError,
    Respondent,
)
from covalt_git.json_values import canonical_json
from covalt_git.system import file_lock
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.json_values import JsonObject
    from covalt_git.models.elicitation import Question

_LONGEST_LINE = 4096
"""Maximum length of an input line of a terminal, in bytes."""

_TRUTHS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "y or n",
    "choices": "several, with commas",
}
# A prompt for a closed question may still wait for a line, which the next prompt must not share.
_one_at_a_time = threading.Lock()


def respondent(*, wanted: bool) -> Respondent:
    """Return a respondent that prompts at this terminal; ``NO_RESPONDENT`` if there is no terminal."""
    # Prompts go to stderr, because stdout has the result.
    if not (wanted and sys.stdin.isatty() and sys.stderr.isatty()):
        return NO_RESPONDENT
    return Respondent(frozenset({"form", "url"}), _show)


def _show(inquiry: Inquiry) -> None:
    threading.Thread(
        target=_ask_user, args=(inquiry,), name="covalt-git prompts", daemon=True
    ).start()


def _ask_user(inquiry: Inquiry) -> None:
    with _one_at_a_time:
        output.move()
        for key, question in inquiry.open().items():
            try:
                _answer(inquiry, key, question)
            except EOFError:  # Ctrl-D: neither yes nor no
                inquiry.answer(key, {"action": "cancel"})
            except NoOpenQuestionError as error:
                output.say(error.message, err=True, dim=True)
                return
            except BadFormError as error:
                inquiry.fail(error)
                return


def _answer(inquiry: Inquiry, key: str, question: Question) -> None:
    """Prompt for the answer of a question, again if the answer is invalid."""
    output.quote(question.message, err=True, bold=True)
    while True:
        answer = (_opened if question.kind == "url" else _filled_in)(inquiry, question)
        try:
            inquiry.answer(key, answer)
        except InvalidAnswerError as error:
            output.say(error.message, err=True, fg="red")
        else:
            return


def _opened(inquiry: Inquiry, question: Question) -> JsonObject:
    """Show a URL, which is never opened automatically, and return whether the user agrees."""
    output.fact(f"  {question.params.get('url')}", err=True)
    return {"action": _agreed(inquiry, "  open it in a browser; agree? [Y/n]: ")}


def _filled_in(inquiry: Inquiry, question: Question) -> JsonObject:
    fields = form_fields(question.params.get("requestedSchema"))
    action = _agreed(inquiry, "  answer it? [Y/n]: ")
    if action != "accept":
        return {"action": action}
    values = {field.name: _value(inquiry, field) for field in fields}
    content = {name: value for name, value in values.items() if value is not None}
    return {"action": "accept", "content": content}


def _agreed(inquiry: Inquiry, label: str) -> str:
    while True:
        agreed = _TRUTHS.get(_line(inquiry, label).lower() or "y")
        if agreed is not None:
            return "accept" if agreed else "decline"


def _value(inquiry: Inquiry, field: FormField) -> Any:
    """Return the value of a field; None if an optional field was left empty."""
    words = field.title + (f" ({field.description})" if field.description else "")
    kind = _KINDS.get(field.kind, field.format)
    kind += "" if field.is_required else f"{', ' if kind else ''}may be empty"
    default = "" if field.default is None else _written(field.default)
    label = f"  {words}" + (f" [{kind}]" if kind else "") + (f" [{default}]" if default else "")
    for value, title in field.options:
        option = f"    {value}" + (f"  {title}" if title != value else "")
        output.fact(option, err=True)
    while True:
        text = _line(inquiry, f"{label}: ") or default
        if not text and not field.is_required:
            return None
        try:
            return _read(field, text)
        except ValueError as error:
            output.fact(f"  {error}", err=True, fg="red")


def _line(inquiry: Inquiry, label: str) -> str:
    """Return a line of input.

    Raises:
        EOFError: at the end of the input, Ctrl-D.
        NoOpenQuestionError: if the question has been closed.
    """
    *above, last = output.divided(display.in_line(label))
    for line in above:
        click.echo(line, err=True)
    click.echo(last, err=True, nl=False)
    terminal = sys.stdin.fileno()
    while not select.select([terminal], [], [], file_lock.POLL_S)[0]:
        if inquiry.is_over:
            click.echo(err=True)
            raise NoOpenQuestionError("the question has been closed")
    # Not from sys.stdin, whose buffer may take further lines, of which `select` would not know.
    typed = os.read(terminal, _LONGEST_LINE)
    if not typed:
        raise EOFError
    return typed.decode(errors="replace").strip()


def _written(default: Any) -> str:
    """Return a default as input text."""
    if isinstance(default, bool):
        return "y" if default else "n"
    if isinstance(default, list):
        return ",".join(map(str, default))
    return default if isinstance(default, str) else canonical_json.dumps(default).decode()


def _read(field: FormField, text: str) -> Any:
    """Return input text as a value of the field.

    Raises:
        ValueError: if it is invalid.
    """
    values = [value for value, _ in field.options]
    match field.kind:
        case "integer" | "number":
            try:
                return int(text) if field.kind == "integer" else float(text)
            except ValueError:
                raise ValueError(f"{text!r} is not {_KINDS[field.kind]}") from None
        case "boolean":
            if text.lower() not in _TRUTHS:
                raise ValueError("answer y or n")
            return _TRUTHS[text.lower()]
        case "choice" | "choices":
            chosen = (
                [text] if field.kind == "choice" else [part.strip() for part in text.split(",")]
            )
            for choice in chosen:
                if choice not in values:
                    raise ValueError(f"{choice!r} is not one of {', '.join(values)}")
            return text if field.kind == "choice" else chosen
    return text
