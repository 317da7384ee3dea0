"""Base class and shared field types of all models."""

# Modules with pydantic models do not defer annotations: pydantic evaluates them when a class is defined, and to
# compile them from text first took a third of that time.
import re
from typing import Annotated, Literal, LiteralString

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints
from pydantic.types import Strict, StrictBool, StrictInt
from pydantic_core import PydanticCustomError

from covalt_git.names import BadNameError, ToolId, is_id, is_pattern, is_tool_name, suggest_id
from covalt_git.paths import check_path

_ENTRYPOINT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

_ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_SECRET_NAME = r"^([A-Za-z_][A-Za-z0-9_]*|auth:[a-z][a-z0-9]*([-_][a-z0-9]+)*)$"  # noqa: S105 - a pattern of names
_DIGEST = r"^sha256:[0-9a-f]{64}$"
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"
HTTP_URL = r"^(https?://|\$\{)[^\s]+$"
URI = r"^[a-z][a-z0-9+.-]*:[^\s]+$"
ARGUMENT = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
MEDIA_TYPE = r"^[a-z]+/[A-Za-z0-9.+-]+(;[^\s]+)?$"
FINGERPRINT = r"^SHA256:[A-Za-z0-9+/]{43}$"
# The principal of a token's holder is `issuer|sub`: it must be ambiguous neither with another pair, nor with the ids of
# the user of this machine, of its clients and of agents.
ISSUER = r"^(https?://|urn:)[!-{}~]+$"
"""Form of an issuer: a URL or URN without spaces and without ``|``."""
KEYS_URL = r"^https?://[^\s#]+$"
PAGE_CALL = r"^([a-z][a-z0-9_-]*:)?[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*$"
FORMS = {
    PAGE_CALL: ("a tool of the toolset, or a pattern", 'summarize, or "read_*"'),
    ISSUER: ("an https URL or a URN, without | and spaces", "https://id.example.com"),
    KEYS_URL: ("an https URL", "https://id.example.com/keys"),
    _ENV_NAME: ("a name of letters, digits and _", "WEATHER_KEY"),
    _SECRET_NAME: ("the name of a secret", "WEATHER_KEY, or auth:github for an entry of auth"),
    _DIGEST: ("a digest", "sha256:<64 hex digits>"),
    _TIME: ("a time in UTC", '"2026-11-20T17:24:00Z"'),
    FINGERPRINT: ("a fingerprint", "SHA256:<43 characters>, as ssh-keygen -l shows it"),
    URI: ("a URI", "handbook://style"),
    ARGUMENT: ("a name of letters, digits and _", "chapter"),
    MEDIA_TYPE: ("a media type", "text/markdown"),
    r"^https?://[^\s${}]+$": ("a URL without references", "https://example.com/"),
    HTTP_URL: ("a URL", "https://example.com/; a URL can begin with ${NAME}"),
}
"""The description and an example of each pattern, for messages."""


class StrictModel(BaseModel):
    """A frozen model that rejects unknown keys, so that typing errors are reported."""

    # A command uses few of the models, and each is built when it is used first.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def refusal(
    message: str, hint: str, kind: LiteralString = "bad_value", at: tuple[str | int, ...] = ()
) -> PydanticCustomError:
    """Return the error of a validator; ``at`` is the place within the value that is wrong."""
    return PydanticCustomError(kind, "{why}", {"why": message, "hint": hint, "at": at})


def check_exactly_one(first: object, second: object, message: str, missing: str) -> None:
    """Refuse two keys of a model if both or neither have a value; ``missing`` is the hint for neither."""
    if (first is None) == (second is None):
        raise refusal(message, missing if first is None else "keep one of them")


def check_command(
    argv: tuple[str, ...], placeholder: str, *, example: str, otherwise: str, belongs: str
) -> tuple[str, ...]:
    """Return the words of a command that is run with a name in the place of ``placeholder``; none is no command.

    Arguments:
        argv: the words; the first is the program.
        placeholder: the text that is replaced by the name.
        example: such a command, for the hint.
        otherwise: what would happen without the placeholder.
        belongs: by what the placeholder is replaced.

    Raises:
        PydanticCustomError: if the command may not be run as it is written.
    """
    why = hint = ""
    if not argv:
        return argv
    # A relative path would lead into the project, which can be someone else's clone.
    if not argv[0] or placeholder in argv[0] or ("/" in argv[0] and not argv[0].startswith("/")):
        why = "the program must be on PATH or an absolute path"
        hint = f"write {example}"
    elif not any(placeholder in part for part in argv[1:]):
        why = f"an argument must contain {placeholder}, or {otherwise}"
        hint = f"add '{placeholder}' where {belongs} belongs"
    elif any("\0" in part for part in argv):
        why, hint = "an argument must not contain a NUL character", "remove it"
    if why:
        raise refusal(why, hint)
    return argv


def _check_id(text: str) -> str:
    if is_id(text):
        return text
    near = suggest_id(text)
    hint = f"write {near}" if near else "use lower-case words joined by - or _"
    raise refusal(f"{text!r} is not an id", hint, "bad_id")


def _check_tool_name(text: str) -> str:
    if is_tool_name(text):
        return text
    near = re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_.")
    hint = f"write {near}" if is_tool_name(near) else "use letters, digits, _ and -, at most 63"
    raise refusal(f"{text!r} is not a tool id", hint, "bad_id")


def _check_full_tool_id(text: str) -> str:
    try:
        if str(ToolId.parse(text)) == text:
            return text
    except BadNameError:
        pass
    hint = "write server:tool, such as github:create_issue"
    raise refusal(f"{text!r} is not a tool id with a namespace", hint, "bad_id")


def _check_any_tool_name(text: str) -> str:
    return _check_full_tool_id(text) if ":" in text else _check_tool_name(text)


def _check_pattern(text: str) -> str:
    if is_pattern(text):
        return text
    hint = "write app-builder.*, app-builder.read_* or **"
    if is_pattern(text.replace(":", ".")):
        hint = f"write {text.replace(':', '.')}"
    raise refusal(f"{text!r} is not a pattern of tool paths", hint)


def _check_entrypoint(text: str) -> str:
    if _ENTRYPOINT.fullmatch(text):
        return text
    path, _, function = text.rpartition(":")
    near = f"{path.removesuffix('.py').strip('./').replace('/', '.')}:{function}"
    hint = "write tools.files:write_file for write_file in tools/files.py"
    if _ENTRYPOINT.fullmatch(near):
        hint = f"write {near}"
    elif _ENTRYPOINT.fullmatch(f"{text}:function"):
        hint = f"add the function: {text}:..."
    raise refusal(f"{text!r} is not module:function", hint)


def _only_integer(value: object) -> object:
    """Return the value, except for ``true`` and ``1.0``: Python considers them equal to 1, so text replaces them."""
    return value if type(value) is int else str(value).lower()


def _check_workspace_path(text: str) -> str:
    verdict = check_path(text)
    if verdict.kind == "good":
        return text
    message = f"{text!r} cannot be a file of a workspace: {verdict.reason}"
    raise refusal(message, "write a path such as src/notes.md")


Int = StrictInt
One = Annotated[Literal[1], BeforeValidator(_only_integer)]
"""The version of a format that has only version 1."""
Bool = StrictBool
Number = Annotated[float, Strict()]
Id = Annotated[str, AfterValidator(_check_id)]
ToolName = Annotated[str, AfterValidator(_check_tool_name)]
FullToolId = Annotated[str, AfterValidator(_check_full_tool_id)]
"""A tool's id with its namespace: ``github:create_issue``."""
AnyToolName = Annotated[str, AfterValidator(_check_any_tool_name)]
"""A tool's name within its toolset, or the full id of a tool of an MCP server."""
Pattern = Annotated[str, AfterValidator(_check_pattern)]
Entrypoint = Annotated[str, AfterValidator(_check_entrypoint)]
WorkspacePath = Annotated[str, AfterValidator(_check_workspace_path)]
"""A file path relative to the workspace that is valid on every operating system."""
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
EnvName = Annotated[str, StringConstraints(pattern=_ENV_NAME)]
SecretName = Annotated[str, StringConstraints(pattern=_SECRET_NAME)]
"""The name of a secret, or ``auth:ID`` for an entry of a toolset's ``auth``."""
Digest = Annotated[str, StringConstraints(pattern=_DIGEST)]
Time = Annotated[str, StringConstraints(pattern=_TIME)]
"""A timestamp in UTC, RFC 3339: ``2026-11-20T17:24:00.123Z``."""
