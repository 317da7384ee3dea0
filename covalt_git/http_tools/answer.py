"""Result or error of an HTTP answer.

JSON becomes its value, text becomes a string, and other content a workspace file and its path.
"""

from __future__ import annotations

import codecs
import html
import json
import re
from email.message import Message
from typing import TYPE_CHECKING, Any

from covalt_git.http_tools.files import file_name
from covalt_git.json_values import canonical_json, with_texts
from covalt_git.json_values.storable import (
    HALF_SURROGATE,
    LARGE_INTEGER,
    exact_integer,
    finite,
    without_surrogates,
)
from covalt_git.models.calls import CallError
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.http_client import Response

_TEXT = re.compile(
    r"text/.*|application/(?:(?:.*\+)?(?:xml|yaml)|x-yaml|javascript|ecmascript|graphql|sql|toml"
    r"|x-www-form-urlencoded|x-ndjson|ndjson|jsonl|x-sh)|image/svg\+xml"
)
_JSON = re.compile(r"application/(?:.*\+)?json|text/json")
_CHARSET = re.compile(
    r"ascii|utf-(?:16|32)(?:-[bl]e)?|(?:iso8859|mac|koi8|tis|ptcp)-?\w+|cp\d+|big5\w*|gb\w+|hz"
    r"|euc_\w+|iso2022_\w+|shift_jis\w*|johab"
)
"""Python's names of charsets; some of its other codecs take forever, or are not charsets."""

_HIDDEN = re.compile(
    r"<(script|style|head|template)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_KEYS = ("message", "error_description", "detail", "error", "title", "errors", "reason", "msg")
_SUCCESS = range(200, 300)
_MAX_ERROR_BODY = 64 * 1024
_MAX_MESSAGE = 300
_MAX_DEPTH = 4
_MOST_ERRORS = 3


class BadResultError(Exception):
    """An answer that cannot be a result; the message gives the reason, and ``result`` is what was answered."""

    def __init__(self, why: str, result: Any) -> None:
        super().__init__(why)
        self.result = result


def result_of(
    answer: Response,
    save: Callable[[str, bytes], str],
    note: Callable[[str], None] = lambda _: None,
) -> Any:
    """Return the result of an answer; ``save`` writes a file into the workspace and returns its path.

    ``note`` is called with what JSON cannot represent and is stored in another form.

    Raises:
        BadResultError: if it is declared as JSON and is not.
        CovaltError: if the workspace cannot store the file.
    """
    media_type, charset = _content_type(answer)
    if not answer.content:
        return None
    if _JSON.fullmatch(media_type):
        return _json_value(answer.content, note)
    if (text := _text(answer.content, media_type, charset)) is not None:
        return text
    name = file_name(answer.headers.get("content-disposition", ""), answer.url, media_type)
    return {
        "file": save(name, answer.content),
        "media_type": media_type or "application/octet-stream",
        "size": len(answer.content),
    }


def error_of(answer: Response, host: str) -> CallError | None:
    """Return the error of a status, with the useful part of the body; None for a success."""
    if answer.status in _SUCCESS:
        return None
    text = error_message(answer)
    message = f"{host} answered {answer.status} {shorten(_plain(answer.reason), 60)}".rstrip()
    message += f": {text}" if text else ""
    return CallError(code=f"http_{answer.status}", message=message)


def graphql_error(result: Any, host: str) -> CallError | None:
    """Return the error of a GraphQL answer that has errors and no data; None for any other answer.

    An answer whose fields are all null has no data: a field that failed is null (section 6.4.4).

    Raises:
        BadResultError: if it is not an answer of GraphQL.
    """
    if not isinstance(result, dict) or not ("data" in result or "errors" in result):
        raise BadResultError("the answer has neither data nor errors, as those of GraphQL", result)
    data, errors = result.get("data"), result.get("errors")
    is_empty = data is None or (
        isinstance(data, dict) and all(value is None for value in data.values())
    )
    if not is_empty or (data is not None and not errors):
        return None
    listed = errors if isinstance(errors, list) else [errors] if errors else []
    texts = [_plain(_json_message(error, 1)) for error in listed[:_MOST_ERRORS]]
    text = "; ".join(dict.fromkeys(filter(None, texts)))
    more = len(listed) - _MOST_ERRORS
    text = shorten(text, _MAX_MESSAGE) + (f"; and {more} more errors" if more > 0 else "")
    message = f"{host} answered without data"
    return CallError(code="graphql_error", message=f"{message}: {text}" if text else message)


def error_message(answer: Response) -> str:
    """Return the message in the body of an error, as one short line of plain text."""
    media_type, charset = _content_type(answer)
    content = answer.content[:_MAX_ERROR_BODY]
    text = _text(content, media_type, charset)
    if text is None and _JSON.fullmatch(media_type):
        text = content.decode("utf-8", "replace")
    if text is None:
        return ""
    if len(answer.content) > _MAX_ERROR_BODY:
        text += "…"
    try:
        message = _plain(_json_message(json.loads(answer.content), 0))
    except (ValueError, RecursionError):
        title = _TITLE.search(text)
        body = _TAG.sub(" ", _HIDDEN.sub(" ", text))
        message = _plain(html.unescape(body)) or _plain(html.unescape(title[1] if title else ""))
    return shorten(message, _MAX_MESSAGE)


def _json_message(value: Any, depth: int) -> str:
    """Return the part of a JSON error that is meant for users."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and depth < _MAX_DEPTH:
        return _json_message(value[0], depth + 1)
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key in _KEYS:
            if message := _json_message(value.get(key), depth + 1):
                return message
    return json.dumps(value, ensure_ascii=False) if depth == 0 and value else ""


def _plain(text: str) -> str:
    """Return text as one line without characters that deceive a terminal or a reader."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _content_type(answer: Response) -> tuple[str, str]:
    message = Message()
    message["Content-Type"] = declared = answer.headers.get("content-type", "")
    if not declared.strip():
        return "", ""
    return message.get_content_type(), str(message.get_content_charset() or "")


def _text(content: bytes, media_type: str, charset: str) -> str | None:
    """Return content that is text, or None; without a media type, UTF-8 without NUL is text."""
    is_declared = bool(_TEXT.fullmatch(media_type))
    encoding = _encoding(charset)
    # Some servers declare every download as text, and no text in these encodings has a NUL.
    is_binary = b"\0" in content and not encoding.startswith(("utf-16", "utf-32"))
    if is_binary or (media_type and not is_declared):
        return None
    try:
        return content.decode(encoding, "replace" if is_declared else "strict")
    except UnicodeError:
        return None


def _encoding(charset: str) -> str:
    """Return Python's name of a charset; UTF-8 if it is unknown, or no encoding of text."""
    try:
        name = codecs.lookup(charset).name if charset else ""
    except (LookupError, ValueError):
        name = ""
    return name if _CHARSET.fullmatch(name) else "utf-8-sig"


def _json_value(content: bytes, note: Callable[[str], None]) -> Any:
    """Return a JSON value in a form that a record can contain.

    An integer beyond 2^53, which some readers round, becomes a string of its digits; half of a
    surrogate pair becomes U+FFFD; NaN, which some servers send, becomes a string; of a repeated key the last value counts, as for most readers.
    """
    raw = content.decode("utf-8-sig", "replace")
    notes: dict[str, None] = {}

    def integer(digits: str) -> int | str:
        exact = exact_integer(digits)
        if isinstance(exact, str):
            notes[LARGE_INTEGER] = None
        return exact

    def without_halves(text: str) -> str:
        whole = without_surrogates(text)
        if whole != text:
            notes[HALF_SURROGATE] = None
        return whole

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            notes["an object has a key twice, and its last value is stored"] = None
        return members

    try:
        text = content.decode("utf-8-sig")
        value: Any = json.loads(text, parse_int=integer, object_pairs_hook=unique)
        if b"\\u" in content:  # only an escape can be half of a pair: UTF-8 has none
            value = with_texts(value, without_halves, keys=True)
        # Each value is walked by Python only if it cannot be stored as it is, which is rare.
        try:
            canonical_json.dumps(value)
        except canonical_json.NotJsonError:
            value, changes = finite(value)
            notes |= dict.fromkeys(changes)
            canonical_json.dumps(value)
    except UnicodeDecodeError:
        raise BadResultError("the answer is declared as JSON but is not UTF-8", raw) from None
    except RecursionError:
        raise BadResultError("the JSON response of the server is nested too deeply", raw) from None
    except canonical_json.NotJsonError as error:
        raise BadResultError(f"the answer cannot be stored: {error.message}", raw) from None
    except ValueError as error:
        raise BadResultError(
            f"the answer is declared as JSON but is not: {shorten(str(error), 100)}", raw
        ) from None
    for text in notes:
        note(text)
    return value
