"""Replacement of the credentials in a document by references to secrets, before anything reads it.

A credential is a token of a known format anywhere, a random value whose name says that it is one, or in a
connection (headers, variables, arguments, URLs) any value with such a name.  ``credentials/named_values.py``
decides what the name of a value is.  Placeholders such as ``<YOUR_API_KEY>`` stay, except in
files of MCP clients, which do not replace them.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from covalt_git.credentials.connection_names import CONNECTIONS, connection_name
from covalt_git.credentials.connection_strings import is_password, passwords
from covalt_git.credentials.leaks import (
    MAX_FOUND,
    credentials,
    is_token,
    references_with_a_value,
)
from covalt_git.credentials.named_values import (
    announced_credentials,
    announces,
    first_secret,
    is_secret,
    named_texts,
)
from covalt_git.formats.credentials import credential_patterns
from covalt_git.formats.credentials.reference_atoms import ReferenceAtoms
from covalt_git.formats.model import Note, unused, variable_name, with_values
from covalt_git.templating.references import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.credentials.named_values import NamedText
    from covalt_git.json_values.pointer import Loc


_MOST_LAYERS = 5
_NAMING = ("name", "id", "tool_id")
_DISTINCT = 8
"""The length from which a value is not a part of another word by chance."""

_WITH_DEFAULT = re.compile(r"\$\{(?:env:|secret:)?(?P<name>[A-Za-z_]\w*):?-[^{}$]*\}")
"""A reference whose value is its default."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""A value that can also be the name of a variable."""

_AUTHORIZATIONS = frozenset({"authorization", "proxy-authorization"})
"""Names of headers that say nothing about the token in them."""

_URLS = frozenset({"url", "uri", "httpurl", "serverurl"})
"""Keys of the URL of an MCP server, in small letters."""

_VARIABLES = frozenset({"env", "environment", "environmentVariables", "variables"})
"""Connections whose values are settings of a program, each a text of its own."""

_GENERIC = CONNECTIONS | {
    *("mcp_servers", "mcpservers", "servers", "mcp", "toolsets", "actions", "tools", "api", "http")
}
"""Keys of objects that do not name a secret's owner."""


def is_literal(text: str, depth: int = 0) -> bool:
    """Return whether a value of a connection has text of its own, beside references, placeholders and a scheme.

    ``depth`` is the number of references around the text.  One in more of them than people write is literal.
    """
    rest = credential_patterns.SCHEME.sub("", text, count=1).strip()
    if not rest or credential_patterns.PLACEHOLDER.fullmatch(rest):
        return False
    outer = _outer_references(rest)
    if not outer and not credential_patterns.REFERENCES.search(rest):
        return True
    if _is_document(rest):  # _secrets_at() reads each member of it
        return False
    if credential_patterns.URL.match(rest):
        return _has_login(rest)
    login = credential_patterns.LOGIN_OF_FLAG.fullmatch(rest)
    if login is not None and login["name"].isalpha() and not is_literal(login["value"], depth + 1):
        return False
    words = rest.split()
    # As libpq has it; names of other lists, as `User Id`, have blanks too.
    is_list_of_words = len(words) > 1 and ";" not in rest and all("=" in word for word in words)
    parts = [
        part.partition("=") for part in (words if is_list_of_words else re.split("[;&]", rest))
    ]
    secret = [value for name, is_set, value in parts if is_set and is_secret(name, value)]
    if len(parts) > 1 and secret:  # a connection string
        return any(map(is_literal, secret))
    # A document of others could nest references deeper than the stack.
    if depth > _MOST_LAYERS or any(_has_literal(*reference, depth) for reference in outer):
        return True
    for start, _, ends in reversed(outer):
        rest = f"{rest[: start.start()]}${{X}}{rest[ends + 1 :]}"
    left = credential_patterns.REFERENCES.sub(" ", rest)
    return any(
        not credential_patterns.PLACEHOLDER.fullmatch(word)
        for word in re.split(f"[{credential_patterns.JOINS}]+", left)
        if word
    )


def _outer_references(text: str) -> list[tuple[re.Match[str], str, int]]:
    """Return the references that have a value and are in no other one: their start, their value and their end."""
    outer: list[tuple[re.Match[str], str, int]] = []
    for start, ends in references_with_a_value(text):
        while outer and outer[-1][0].start() > start.start():
            outer.pop()
        outer.append((start, text[start.end() : ends], ends))
    return outer


def _has_literal(start: re.Match[str], value: str, _: int, depth: int) -> bool:
    """Return whether the value of a reference is a credential, not a message or the end of a name."""
    begins = start["begins"]
    is_name = start["sign"] == "-" and begins.islower() and not {":", "_"} & {*begins}
    if start["sign"] == "?" or (is_name and credential_patterns.WORD_OF_A_NAME.fullmatch(value)):
        return any(map(is_token, value.split()))
    return is_literal(value, depth + 1)


def _is_document(text: str) -> bool:
    try:
        return text[:1] in {"{", "["} and isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def replace_credentials(
    value: Any,
    *,
    with_placeholders: bool = False,
    has_bare_references: Callable[[Loc], bool] = lambda _: False,
) -> tuple[Any, list[Note]]:
    """Return a document with references in place of its credentials, and what was replaced.

    With ``with_placeholders``, ``<YOUR_KEY>`` and ``{{API_KEY}}`` are values that a user has to replace, as ``YOUR_KEY`` is.
    ``has_bare_references`` returns whether ``$NAME`` is a reference at a place.
    """
    searched = _with_texts(value, _marked) if with_placeholders else value
    atoms = ReferenceAtoms(searched, has_bare_references)
    names = (name for _, text in texts(searched) for name in _REFERRED.findall(text))
    replaced, notes = _replaced(atoms.value, {*map(variable_name, names)})
    replaced = atoms.restored(replaced)
    return (_with_texts(replaced, _unmarked) if with_placeholders else replaced), notes


def _replaced(value: Any, referred: set[str]) -> tuple[Any, list[Note]]:
    replacer = _Replacer(_tokens(value), referred)
    # The keys first: places in the report and names of secrets are made of them.
    value = replacer.without_tokens_in_keys(value, _Place())
    replacer.read_names(value)
    replacer.visit(value, _Place())
    replacer.repeat(value)
    return with_values(value, replacer.texts), replacer.found


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    others = {loc: change(text) for loc, text in texts(value) if change(text) != text}
    return with_values(value, others)


def _marked(text: str) -> str:
    """Return a text in which no placeholder has the signs of one, so that it is a value as any other."""
    return credential_patterns.USERS_PLACEHOLDER.sub(
        lambda placeholder: placeholder[0].translate(_MARKS), text
    )


def _unmarked(text: str) -> str:
    return text.translate({ord(mark): chr(sign) for sign, mark in _MARKS.items()})


def _tokens(value: Any) -> list[str]:
    """Return the values that look like credentials, the longest first.

    One search in all of a document takes a hundredth of a search in each of its texts, so only texts with escapes are
    searched by themselves; and all of them if a value may have run on beyond its text, and hidden what follows.
    """
    in_document = credentials(json.dumps(value, ensure_ascii=False))
    is_full = len(in_document) >= MAX_FOUND or any(
        '"' in credential.value for credential in in_document
    )
    for _, text in texts(value):
        # In the document, quotes and other escapes separate what is together in the text.
        if is_full or json.dumps(text, ensure_ascii=False) != f'"{text}"':
            in_document += credentials(text)
    in_document += [credential for _, credential in announced_credentials(value)]
    values = {credential.value for credential in in_document}
    return sorted(values, key=lambda value: (-len(value), value))


_MARKS = {ord(sign): chr(0xF8D0 + at) for at, sign in enumerate("<>{} ")}
"""Signs of placeholders, and characters for private use, which no document has."""


class _Place(NamedTuple):
    """The place of a value, the names around it, its key, and that of the connection to which it belongs.

    ``is_argument``: it is one argument of a program, not a line for a shell.  ``program``: the one that gets the list.
    """

    loc: Loc = ()
    owners: tuple[str, ...] = ()
    key: str = ""
    connection: str = ""
    is_argument: bool = False
    program: str = ""


_REFERRED = re.compile(
    r"\{\s*(?:(?:env|secrets?|input)[:.]\s*)?([A-Za-z_][\w -]*?)\s*(?::[-?][^{}]*)?\}"
)
"""The names in references of all clients: ``${NAME:-x}``, ``${env:NAME}``, ``{env:NAME}``, ``${input:a name}``, ``${{ secrets.NAME }}``."""


_FILE = re.compile(r"\{file:([^{}]+)\}")
"""The file whose content is a value, in OpenCode and Windsurf."""


class _Replacer:
    def __init__(self, tokens: list[str], referred: set[str]) -> None:
        self.found: list[Note] = []
        self.texts: dict[Loc, str] = {}
        self._tokens = tokens
        self._names: dict[str, str] = {}
        self._referred = referred
        self._named: dict[Loc, tuple[NamedText, ...]] = {}

    def read_names(self, value: Any) -> None:
        """Read the names of all texts, which are not only their keys."""
        for named in named_texts(value):
            self._named[named.loc] = (*self._named.get(named.loc, ()), named)

    def visit(self, value: Any, place: _Place) -> None:
        """Add the texts of a value that have credentials to ``texts``, with references in their place."""
        if isinstance(value, dict):
            naming = next((value[key] for key in _NAMING if isinstance(value.get(key), str)), "")
            owners = (*place.owners, naming) if naming else place.owners
            program = value.get("command")
            for key, item in value.items():
                connection = _connection(key, place.connection)
                is_generic = key.lower() in _GENERIC or connection_name(key) in CONNECTIONS
                is_owner = isinstance(item, dict) and not is_generic
                around = (*owners, key) if is_owner else owners
                inner = _Place((*place.loc, key), around, key, connection)
                inner = inner._replace(program=program if isinstance(program, str) else "")
                if self._can_have_one(item, inner):
                    self.visit(item, inner)
        elif isinstance(value, list):
            for position, item in enumerate(value):
                inner = place._replace(loc=(*place.loc, position))
                if self._can_have_one(item, inner):
                    flag = _flag_before(value, position) if place.connection == "args" else ""
                    self._visit_item(item, flag, inner)
            # In a second pass over all arguments: whether a password follows -p depends on the program, which can be any
            # earlier argument.
            self._visit_passwords(value, place)
        elif isinstance(value, str):
            text = value
            written = set[str]()
            for prefix, literal, name in self._literals(value, place):
                # A line of a key can end with `==`, which looks like a variable: the key would not be found any more.
                is_part = prefix and any(prefix + literal in token for token in self._tokens)
                if prefix + literal in text and not is_part:
                    reference = self._reference(literal, name, place)
                    text = text.replace(prefix + literal, prefix + reference)
                    written.add(reference)
            if _is_setting(place) and any(_has_rest(text, reference) for reference in written):
                # A part of a credential of a form that nothing here knows: all of the text becomes the secret.
                flag = credential_patterns.WHOLE_FLAG.match(value)
                prefix = flag["before"] if flag else ""
                text = prefix + self._reference(value.removeprefix(prefix), place.key, place)
            if text != value:
                self.texts[place.loc] = text

    def repeat(self, value: Any) -> None:
        """Replace the credentials that were found in the other texts of the document too, as in a description.

        Such a value was recognized by the name of its field.  Short values and plain words stay, because other texts
        may contain them by chance.
        """
        literals = {literal: name for literal, name in self._names.items() if _is_distinct(literal)}
        for loc, original in texts(value) if literals else ():
            text = self.texts.get(loc, original)
            for literal in sorted(literals, key=len, reverse=True):
                name = literals[literal]
                without = _without_copies(text, literal, f"${{{name}}}")
                if without != text:
                    text = without
                    self.found.append(Note(loc, _message(name), name))
            if text != original:
                self.texts[loc] = text

    def without_tokens_in_keys(self, value: Any, place: _Place) -> Any:
        """Return a value with the names of secrets in place of the tokens in its keys."""
        if isinstance(value, list):
            return [
                self.without_tokens_in_keys(item, place._replace(loc=(*place.loc, position)))
                for position, item in enumerate(value)
            ]
        if not isinstance(value, dict) or not self._tokens:
            return value
        changed: dict[str, Any] = {}
        for key, item in value.items():
            name = key
            for token in self._tokens:
                if token in name:  # a reference is no key, but the name of the secret is
                    reference = self._reference(token, "key", place)
                    name = name.replace(token, reference[2:-1])
            loc = (*place.loc, name)
            changed[unused(name, changed, "_")] = self.without_tokens_in_keys(item, _Place(loc))
        return changed

    def _without_tokens(self, name: str) -> str:
        """Return a name without the tokens in it, or ``key`` if nothing is left."""
        for token in self._tokens:
            name = name.replace(token, "")
        return name if any(map(str.isalnum, name)) else "key"

    def _visit_item(self, value: Any, flag: Any, place: _Place) -> None:
        login = _login_after(flag, value)
        if login is not None:
            reference = self._reference(login["value"], "password", place)
            self.texts[place.loc] = login["before"] + reference
        elif _is_argument_of(flag, value):
            self.texts[place.loc] = self._reference(value, flag.lstrip("-"), place)
        else:
            is_line = (
                isinstance(flag, str) and credential_patterns.SHELL_FLAG.fullmatch(flag) is not None
            )
            self.visit(value, place._replace(is_argument=not is_line))

    def _visit_passwords(self, arguments: list[Any], place: _Place) -> None:
        """Replace the passwords after ``-p`` of the programs that take one there."""
        if place.connection != "args":
            return
        words = [
            place.program,
            *(argument if isinstance(argument, str) else "" for argument in arguments),
        ]
        is_glued = is_apart = False
        for position, (previous, word) in enumerate(pairwise(words)):
            name = previous.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
            is_glued = (
                is_glued
                or re.fullmatch(credential_patterns.PROGRAMS_WITH_GLUED_P, name) is not None
            )
            is_apart = is_apart or name in {"login", "sshpass"}
            start = "-p" if is_glued and word.startswith("-p") else ""
            value = word.removeprefix(start)
            if (start or (is_apart and previous == "-p")) and is_literal(value):
                inner = place._replace(loc=(*place.loc, position))
                self.texts[inner.loc] = start + self._reference(value, "password", inner)

    def _can_have_one(self, value: Any, place: _Place) -> bool:
        if not isinstance(value, str):
            return isinstance(value, dict | list)
        is_searched = (
            place.connection in CONNECTIONS or place.connection == "args" or "://" in value
        )
        return is_searched or bool(self._tokens) or any(self._secrets_at(place))

    def _secrets_at(self, place: _Place) -> Iterator[tuple[str, str]]:
        """Yield each text at a place whose name says that it is a credential, and this name."""
        in_connection = place.connection in CONNECTIONS
        for named in self._named.get(place.loc, ()):
            is_connection = in_connection or (named.is_inner and place.connection == "args")
            name = first_secret(named.names, named.text, in_connection=is_connection)
            if name and is_literal(named.text):
                yield named.text, name

    def _literals(self, text: str, place: _Place) -> Iterator[tuple[str, str, str]]:
        """Yield the credentials of a text: what is before each, the credential, and its name."""
        key = place.key
        for value, name in self._secrets_at(place):
            scheme = credential_patterns.SCHEME.match(value)
            prefix = scheme[0] if scheme else ""
            if value == text:
                yield prefix, value[len(prefix) :], name
                return
            # The text contains a JSON document. Without the quotation mark before it, a short value would also be found
            # within other words.
            literal = _as_written(f'"{prefix}', value[len(prefix) :], text)
            yield f'"{prefix}', literal, name
        if (is_connection := place.connection in CONNECTIONS | {"args"}) and (
            scheme := credential_patterns.ANNOUNCED_BY_SCHEME.match(text)
        ):
            if is_literal(text):
                yield scheme["before"], scheme["value"], key
            return
        is_server = place.key.lower() in _URLS and credential_patterns.HTTP.match(text) is not None
        login = credential_patterns.WHOLE_LOGIN.match(text) if is_server else None
        if login is not None:
            yield login["before"], login["value"], "login"
        elif "://" in text and "@" in text and _has_login_word(text):
            yield "", text, key if key.lower().endswith("url") else f"{key}_url"
            return
        if (flag := _flag_with_login(text)) and place.is_argument:
            yield flag["before"], flag["value"], f"{flag['name']}_url"
            return
        # Before the assignments of a shell, whose values end at signs that passwords of connection strings may have.
        if is_connection:
            yield from _passwords_of_lists(text, place)
        for login in (
            credential_patterns.LOGIN.finditer(text)
            if is_connection or credential_patterns.URL.match(text)
            else ()
        ):
            if is_literal(login["value"]):
                yield login["before"], login["value"], _password_name(place)
        if is_server:
            yield from _keys_in_path(text)
        yield from _secrets_in_parameters(text)
        for written in credential_patterns.AFTER_SCHEME.finditer(text) if is_connection else ():
            if is_literal(written["value"]):
                yield written["before"], written["value"], written["name"]
        for written in _named_values(text, place):
            name = unquote(written["name"])
            if is_secret(name, written["value"]) and is_literal(written["value"]):
                yield written["before"], written["value"], name
        for pattern in credential_patterns.PASSWORDS if place.connection == "args" else ():
            for written in pattern.finditer(text):
                if is_literal(written["value"]):
                    yield written["before"], written["value"], "password"
        if place.connection == "args" and ("curl" in text or credential_patterns.CURL.match(text)):
            for written in credential_patterns.CURL.finditer(text):
                if _is_login(written):
                    yield written["before"], written["value"], "password"
        # Last: what a name announces has that name as its secret, not the key of the text.
        for token in self._tokens:
            # The path in `{file:PATH}` is a part of a reference, which has to be replaced as a whole.
            file = (
                re.search(rf"\$?\{{(?:file:)?{re.escape(token)}\}}", text)
                if "{file:" in text
                else None
            )
            yield "", file[0] if file else token, self._announced(place) or key

    def _announced(self, place: _Place) -> str:
        """Return the first name of a text that says that a random value is a credential."""
        names = (name for named in self._named.get(place.loc, ()) for name in named.names)
        return next(filter(announces, names), "")

    def _reference(self, literal: str, name: str, place: _Place) -> str:
        """Return the reference to a credential; equal credentials have one name."""
        own = _WITH_DEFAULT.fullmatch(literal)
        # The user's own variable stays, without the credential that is its default.
        if own is not None:
            self._names[literal] = own["name"]
        if literal not in self._names:
            place = place._replace(owners=tuple(map(self._without_tokens, place.owners)))
            name = _secret_name(self._without_tokens(name), place)
            # Two credentials must not become one secret, which would send the value of the one in place of the
            # other; neither must a credential and what the document refers to by the same name.
            name = unused(name, {*self._names.values(), *self._referred}, "_")
            self._names[literal] = name
        secret = self._names[literal]
        self.found.append(Note(place.loc, _message(secret, literal), secret))
        return f"${{{secret}}}"


def _is_setting(place: _Place) -> bool:
    """Return whether a text is the value of a variable, or one argument, and not a line for a shell."""
    return place.is_argument if place.connection == "args" else place.connection in _VARIABLES


def _has_rest(text: str, reference: str) -> bool:
    """Return whether text that neither ends a list's value nor is a quote follows a reference in place of a value."""
    before, after = credential_patterns.BEFORE_A_VALUE, credential_patterns.REST
    return re.search(f"{before}{re.escape(reference)}{after}", text) is not None


def _passwords_of_lists(text: str, place: _Place) -> Iterator[tuple[str, str, str]]:
    """Yield the passwords of the connection strings in a text, each with its quotes, the longest first."""
    is_list = place.connection != "args" or place.is_argument
    for password in sorted(
        passwords(text, is_list=is_list), key=lambda password: password.start - password.end
    ):
        if password.can_be_of_a_shell and not is_list:
            continue
        if is_literal(password.text) and (not password.is_placeholder or is_token(password.text)):
            name = _password_name(place) if is_password(password.key) else password.key
            key_text = text[password.key_start : password.start]
            yield key_text, text[password.start : password.end], name


def _keys_in_path(url: str) -> Iterator[tuple[str, str, str]]:
    """Yield the keys in the path of a server's URL, which have no name: random segments, and a UUID at its end."""
    for segment in credential_patterns.PATH_SEGMENT.finditer(re.split("[?#]", url)[0]):
        value = segment["value"]
        is_uuid = credential_patterns.UUID.fullmatch(value) is not None
        ends = credential_patterns.END_OF_SERVER.match(url, segment.end()) is not None
        if (is_uuid and ends) or (not is_uuid and is_token(value)):
            yield segment["before"], value, "url_key"


def _named_values(text: str, place: _Place) -> Iterator[re.Match[str]]:
    """Yield the values of a text that have a name, in each form that the text may have at its place."""
    if place.connection == "args":
        whole = (
            (
                credential_patterns.WHOLE_FLAG,
                credential_patterns.ASSIGNMENT,
                credential_patterns.SLASH_FLAG,
            )
            if place.is_argument
            else ()
        )
        for pattern in (*whole, *credential_patterns.FLAGS):
            yield from pattern.finditer(text)
        # The value of a flag can be a header itself: `--header=Authorization: Bearer ...`.
        flag = credential_patterns.WHOLE_FLAG.match(text) if place.is_argument else None
        if flag is not None:
            yield from credential_patterns.HEADERS[0].finditer(flag["value"])
    if place.connection == "args" or place.connection in CONNECTIONS:
        for pattern in credential_patterns.HEADERS:
            yield from pattern.finditer(text)
    if place.connection == "args" or place.connection in CONNECTIONS:
        for pattern in (
            *credential_patterns.ASSIGNMENTS,
            credential_patterns.MEMBER,
            *credential_patterns.WRITTEN_VALUES,
        ):
            yield from pattern.finditer(text)
    yield from credential_patterns.PARAMETER.finditer(text)
    if "://" in text:
        yield from credential_patterns.MATRIX_PARAMETER.finditer(text)


def _flag_before(arguments: list[Any], position: int) -> Any:
    """Return the argument before another one, without the `--` that ends flags."""
    ends_flags = position > 1 and arguments[position - 1] == "--"
    at = position - (2 if ends_flags else 1)
    return arguments[at] if at >= 0 else ""


def _secrets_in_parameters(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the parameters of URLs that are JSON documents with a credential, as ``?config=%7B%22apiKey...``.

    All of the document becomes the secret, because a part of it is escaped and has no place of its own.
    """
    for parameter in credential_patterns.PARAMETER.finditer(text) if "%7b" in text.lower() else ():
        for named in named_texts([unquote(parameter["value"])]):
            name = first_secret(named.names, named.text, in_connection=True)
            if name and is_literal(named.text):
                yield parameter["before"], parameter["value"], parameter["name"]
                break


def _as_written(before: str, value: str, text: str) -> str:
    """Return a value of a JSON document as a text has it, in which documents can be in documents."""
    for is_ascii in (False, True):
        written = value
        for _ in range(_MOST_LAYERS):
            if before + written in text:
                return written
            written = json.dumps(written, ensure_ascii=is_ascii)[1:-1]
    return value


def _login_after(flag: Any, value: Any) -> re.Match[str] | None:
    """Return the user and the password of an argument after ``-u``, as curl takes them."""
    if (
        not isinstance(flag, str)
        or not isinstance(value, str)
        or not credential_patterns.USER_FLAG.fullmatch(flag)
    ):
        return None
    login = credential_patterns.LOGIN_OF_FLAG.fullmatch(value)
    return login if login is not None and _is_login(login) else None


def _is_login(login: re.Match[str]) -> bool:
    """Return whether ``user:value`` is a user and a password, not the user and the group of a container."""
    user, value = login["name"], login["value"]
    return value != user and not (user.isdecimal() and value.isdecimal()) and is_literal(value)


def _password_name(place: _Place) -> str:
    """Return a name for the password in a URL, which is a part of the value at a place."""
    if place.connection == "args":
        return "password"
    return f"{place.key}_PASSWORD" if place.key.isupper() else f"{place.key}_password"


def _message(name: str, text: str = "") -> str:
    file = _FILE.search(text)
    if file is not None:
        return f"the client reads this credential from the file {file[1]!r}: the output refers to the secret {name}"
    return f"the credential is not copied: the output refers to the secret {name}"


def _is_distinct(literal: str) -> bool:
    """Return whether a value is so long, or so mixed, that another text contains it only as a copy."""
    return len(literal) >= _DISTINCT and not literal.isalpha()


def _without_copies(text: str, literal: str, reference: str) -> str:
    """Return a text with a reference in place of each copy of a value, except in the names of the text's own references.

    People write the name of a variable as the value of a key, and refer to it elsewhere.
    """
    if not _VARIABLE.fullmatch(literal):
        return text.replace(literal, reference)
    copies = re.compile(
        rf"(?P<begins>(?:\$\{{\{{?|\{{)\s*(?:\w+[:.])?|(?<!\w)\$)?{literal}(?P<ends>\b)?"
    )
    return copies.sub(
        lambda copy: (
            copy[0]
            if copy["begins"] and copy["ends"] is not None
            else (copy["begins"] or "") + reference
        ),
        text,
    )


def _has_login(text: str) -> bool:
    """Return whether a text has a URL with a literal password, or with a token as its user."""
    return _has_login_word(text) or any(
        is_literal(login["value"]) for login in credential_patterns.LOGIN.finditer(text)
    )


def _has_login_word(text: str) -> bool:
    """Return the same for URLs that are whole words, whose password can have quotes."""
    # A reference can have spaces and colons, as `${env:USER}`.
    for word in credential_patterns.IN_BRACES.sub("${X}", text).split():
        try:
            url = urlsplit(word)
        except ValueError:
            continue
        if (url.password and is_literal(url.password)) or is_token(url.username or ""):
            return True
    return False


def _flag_with_login(text: str) -> re.Match[str] | None:
    """Return a flag with a URL whose password has a quote, at which the login of a URL in a line for a shell ends."""
    flag = credential_patterns.WHOLE_FLAG.match(text) if "://" in text and "@" in text else None
    if flag is None or credential_patterns.LOGIN.search(text):
        return None
    return flag if _has_login_word(flag["value"]) else None


def _connection(key: str, above: str) -> str:
    name = connection_name(key)
    if name == "args":
        return name
    return above if above in CONNECTIONS and name not in CONNECTIONS else name


def _is_argument_of(flag: Any, value: Any) -> bool:
    """Return whether a value is a credential that follows its flag, as in ``--token VALUE``."""
    if not isinstance(flag, str) or not isinstance(value, str) or value.startswith("-"):
        return False
    return (
        bool(credential_patterns.IS_FLAG.fullmatch(flag))
        and is_secret(flag, value)
        and is_literal(value)
    )


def _secret_name(name: str, place: _Place) -> str:
    """Return a name for a secret: that of its variable, or of its owner and its header."""
    keys = {connection_name(key) for key in place.loc if isinstance(key, str)}
    in_variables = not keys.isdisjoint({"env", "environment"})
    if in_variables and name != place.key and name.lower() in _AUTHORIZATIONS:
        return variable_name("", f"{place.key}_token")
    if in_variables and re.fullmatch(r"[A-Za-z_]\w*", name):
        return name
    owners = [owner for owner in place.owners if owner != name]
    owner = owners[-1] if owners else ""
    # A mark says that the value of a variable is a credential: the program reads it by the variable's own name.
    declares_variables = "environmentvariables" in {key.lower().replace("_", "") for key in keys}
    if declares_variables and name == "password" and re.fullmatch(r"[A-Za-z_]\w*", owner):
        return owner
    # The reader of MCPB makes the name of a sensitive setting's secret in this way.
    if name == "password" and owner and "user_config" in place.loc:
        return variable_name(owner)
    word = "token" if name.lower() in _AUTHORIZATIONS else name
    return variable_name(owner, word)
