"""What an answer means to a call: its result, or the error that the other side told of.

JSON becomes its value, text a text, anything else a file of the workspace and a reference to it.
"""

from __future__ import annotations

import codecs
import html
import json
import re
from email.message import Message
from typing import TYPE_CHECKING, Any

from covalt_git.http_tools.files import file_name
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import CallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.http_client import Answer

_TEXT = re.compile(
    r"text/.*|application/(?:(?:.*\+)?(?:xml|yaml)|x-yaml|javascript|ecmascript|graphql|sql|toml"
    r"|x-www-form-urlencoded|x-ndjson|ndjson|jsonl|x-sh)|image/svg\+xml"
)
_JSON = re.compile(r"application/(?:.*\+)?json|text/json")
_CHARSET = re.compile(
    r"ascii|utf-(?:16|32)(?:-[bl]e)?|(?:iso8859|mac|koi8|tis|ptcp)-?\w+|cp\d+|big5\w*|gb\w+|hz"
    r"|euc_\w+|iso2022_\w+|shift_jis\w*|johab"
)
"""Python's names of charsets; some of its other codecs take forever, or are no charset at all."""

_HIDDEN = re.compile(
    r"<(script|style|head|template)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_TELLING = ("message", "error_description", "detail", "error", "title", "errors", "reason", "msg")
_SUCCESS = range(200, 300)
_MAX_LOOKED_AT = 64 * 1024
_MAX_SAID = 300
_MAX_DEPTH = 4


class BadResultError(Exception):
    """An answer that cannot be a result; the message says why."""


def result_of(answer: Answer, save: Callable[[str, bytes], str]) -> Any:
    """Return the result that an answer is; ``save`` puts a file of that name into the workspace.

    Raises:
        BadResultError: when it says it is JSON and is not.
        CovaltError: when the workspace cannot hold its file.
    """
    media_type, charset = _content_type(answer)
    if not answer.content:
        return None
    if _JSON.fullmatch(media_type):
        return _json_value(answer.content)
    text = _text(answer.content, media_type, charset)
    if text is not None:
        return text
    name = file_name(answer.headers.get("content-disposition", ""), answer.url, media_type)
    path = save(name, answer.content)
    return {
        "file": path,
        "media_type": media_type or "application/octet-stream",
        "size": len(answer.content),
    }


def error_of(answer: Answer, host: str) -> CallError | None:
    """Return the error that a status tells, with the useful part of the body; None for a success."""
    if answer.status in _SUCCESS:
        return None
    said = said_by(answer)
    reason = _plain(answer.reason)[:60]
    message = f"{host} answered {answer.status} {reason}".rstrip()
    return CallError(
        code=f"http_{answer.status}", message=f"{message}: {said}" if said else message
    )


def said_by(answer: Answer) -> str:
    """Return what an error's body says, in one short line of plain text."""
    media_type, charset = _content_type(answer)
    text = _text(answer.content[:_MAX_LOOKED_AT], media_type, charset)
    if text is None and not _JSON.fullmatch(media_type):
        return ""
    text = answer.content[:_MAX_LOOKED_AT].decode("utf-8", "replace") if text is None else text
    try:
        said = _telling(json.loads(answer.content), 0)
    except (ValueError, RecursionError):
        title = _TITLE.search(text)
        body = _HIDDEN.sub(" ", text)
        said = html.unescape(_TAG.sub(" ", body)) or (html.unescape(title[1]) if title else "")
        said = said if _plain(said) else (html.unescape(title[1]) if title else "")
    said = _plain(said)
    return said if len(said) <= _MAX_SAID else f"{said[:_MAX_SAID]}..."


def _telling(value: Any, depth: int) -> str:
    """Return the part of a JSON error that is meant for people."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and depth < _MAX_DEPTH:
        return _telling(value[0], depth + 1)
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key in _TELLING:
            said = _telling(value.get(key), depth + 1)
            if said:
                return said
    if depth == 0 and value not in (None, [], {}):
        return json.dumps(value, ensure_ascii=False)
    return ""


def _plain(text: str) -> str:
    """Return text in one line, without what a terminal or a reader could be led astray by."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _content_type(answer: Answer) -> tuple[str, str]:
    message = Message()
    message["Content-Type"] = answer.headers.get("content-type", "")
    if not answer.headers.get("content-type", "").strip():
        return "", ""
    return message.get_content_type(), str(message.get_content_charset() or "")


def _text(content: bytes, media_type: str, charset: str) -> str | None:
    """Return content that is text, or None; where nothing says what it is, UTF-8 without NUL is."""
    declared = bool(_TEXT.fullmatch(media_type))
    encoding = _encoding(charset)
    if not declared and media_type:
        return None
    if b"\0" in content and not encoding.startswith(("utf-16", "utf-32")):
        return None
    try:
        return content.decode(encoding, "replace" if declared else "strict")
    except UnicodeError:
        return None


def _encoding(charset: str) -> str:
    """Return Python's name of a charset that texts have; UTF-8 for what is none, or only a codec."""
    try:
        name = codecs.lookup(charset).name if charset else ""
    except (LookupError, ValueError):
        name = ""
    return name if _CHARSET.fullmatch(name) else "utf-8-sig"


def _json_value(content: bytes) -> Any:
    """Return a JSON value as a record can hold it.

    An integer beyond 2^53, which not every reader keeps, becomes its digits; half of a surrogate
    pair becomes U+FFFD; of a key that stands twice the last counts, as for most readers.
    """
    try:
        value = json.loads(
            content.decode("utf-8-sig"), parse_int=_integer, parse_constant=_no_constant
        )
        if b"\\u" in content:
            value = _whole_texts(value)
        canonical_json.dumps(value)
    except UnicodeDecodeError:
        raise BadResultError("the answer says it is JSON and is not UTF-8") from None
    except RecursionError:
        raise BadResultError("the answer is nested too deeply") from None
    except canonical_json.NotJsonError as error:
        raise BadResultError(f"the answer cannot be kept: {error.message}") from None
    except ValueError as error:
        raise BadResultError(f"the answer says it is JSON and is not: {str(error)[:100]}") from None
    return value


def _integer(digits: str) -> int | str:
    short = len(digits) < 18  # noqa: PLR2004 - far beyond 2^53 already, and cheap to read
    return (
        number
        if short and abs(number := int(digits)) <= canonical_json.MAX_EXACT_INTEGER
        else digits
    )


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no value of JSON")


def _whole_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole_texts(key): _whole_texts(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole_texts(inner) for inner in value]
    return value
