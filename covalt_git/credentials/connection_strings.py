r"""Parser of the passwords in connection strings: lists of ``key=value`` of databases, and logins of drivers.

Each family of lists has a separator and quotes of its own:

====================================  =============  ==========================================
Family                                Separator      Quotes
====================================  =============  ==========================================
ODBC, ADO.NET, JDBC of SQL Server     ``;``          ``".."".."``, ``'..''..'``, ``{..}}..}``
parameters of URLs, other JDBC        ``&``          percent encoding
StackExchange.Redis, Teradata         ``,``          ``'..''..'`` of Teradata
libpq                                 blanks         ``'..\'..'``, and ``\`` before a character
ini, below a ``[section]``            lines          quotes, which stay, as TOML needs them
====================================  =============  ==========================================

Logins are ``user:password@tcp(host)/`` of Go's driver for MySQL, and ``user/password@host`` of Oracle's for Java.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.credentials.plain_names import plain_name
from covalt_git.credentials.value_patterns import LOCKS, NAME_IN_BRACES, REFERENCE_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator


class Password(NamedTuple):
    """A password in a connection string: its key, and where the key, the value with its quotes and the text in them are.

    ``text`` is what is in the quotes.  Without quotes both spans are equal.
    """

    key: str
    key_start: int
    start: int
    end: int
    text_start: int
    text: str
    is_in_braces: bool = False
    can_be_of_a_shell: bool = False
    """Whether a shell would read the value as a variable and a command: it has blanks, and no quotes around its list."""

    @property
    def is_placeholder(self) -> bool:
        """Whether the value is a name in braces, as ``{db_password}`` in a template; ODBC has braces as quotes."""
        return (
            self.is_in_braces
            and (NAME_IN_BRACES.fullmatch(self.text) or EXPRESSION.fullmatch(self.text)) is not None
        )


EXPRESSION: Final = re.compile(r"[A-Za-z_$][\w$.]*(?:\([^()]*\)|\[[^\[\]]*\]|![ars])+")
"""An expression of a program or of a template, as ``os.environ['DB']``."""

_WORDS: Final = ("pass", "pwd", "secret", "token", "key", "signature")
"""What each key of a password contains."""

_END_OF_KEY: Final = re.compile(r"(?:word|wd|phrase|code)?s?[0-9]{0,3}\s{0,3}=(?!=)", re.IGNORECASE)
_SECRET_KEY: Final = re.compile(
    r"(?:password|passwd|passphrase|passcode|secret|(?<!public_key_)token|(?:access|shared)_signature"
    rf"|(?:^|_|(?:db|ssh|pg|mysql|redis|root|admin|user))(?:pass|pwd)|(?:{LOCKS})_?key)\Z",
    re.IGNORECASE,
)
"""The end of a plain name whose value is a credential in a connection string."""

_IS_PASSWORD: Final = re.compile(r"pass(?:word|wd)?\Z|pwd\Z", re.IGNORECASE)
_KEY: Final = re.compile(r"[^;&?,\"'`={}()<>|#\n\\/$]{1,80}\Z")
_CODE: Final = re.compile(
    r"\s*(?:let|const|var|val|my|our|local|export|return|set|if|for|else|final|static|string)\s|.*\b(?:this|self)\.",
    re.IGNORECASE,
)
"""The start of a statement of a program, which ends with a semicolon too."""

_OTHER_KEYS: Final = (
    r"server|data[ ]?source|addr(?:ess)?|network[ ]address|host(?:[ ]?name)?|driver|provider|dsn|dbq"
    r"|initial[ ]?catalog|database(?:[ ]?name)?|uid|user(?:[ ]?(?:id|name))?|endpoint|blobendpoint|account[ ]?name|authtype|client[ ]?id"
    r"|shared[ ]?access[ ]?key[ ]?name|defaultendpointsprotocol|encrypt|trustservercertificate|host[ ]?name|app[ ]?id|service[ ]?uri"
)
_OF_SEMICOLONS: Final = re.compile(
    rf"(?P<first>;\s{{0,3}}(?:{_OTHER_KEYS})\s{{0,3}}=)"
    rf"|(?<![^\s\"'`=:,(>])(?:{_OTHER_KEYS})\s{{0,3}}=(?=[^;\n=]{{0,300}};)|jdbc:[a-z]",
    re.IGNORECASE,
)
"""Other keys of ``;`` lists; ``first`` is after a semicolon, so that the first key of the list can be that of a password."""

_OF_BLANKS: Final = re.compile(
    r"(?<![^\s\"'`=])(?:host(?:addr)?|dbname|sslmode|connect_timeout|application_name)\s?=\s?"
    r"(?:'(?>(?:\\.|[^'\\\n]){0,200})'|[^\s,;()'\"`]{1,200}+)(?=[\s\"'`]|\Z)"
)
_OF_COMMAS: Final = re.compile(
    r"(?<![\w.-])(?:[\w-][\w.-]{0,200}|\[[0-9a-f:]+\]):[0-9]{2,5}(?=,)|jdbc:teradata:"
    r"|,\s{0,3}(?:ssl|abortConnect|defaultDatabase|allowAdmin|connectTimeout|syncTimeout|connectRetry|sslHost)\s{0,3}=",
    re.IGNORECASE,
)
_OF_URLS: Final = re.compile("://|jdbc:[a-z]", re.IGNORECASE)
_OF_DRIVERS: Final = re.compile("jdbc:[a-z]", re.IGNORECASE)
_REACH: Final = 2000
"""Number of characters before and after a password in which other keys of its list are looked for."""

_QUOTE: Final = re.compile(r"(?<!\\)(?:[\"`]|(?<![A-Za-z0-9])'|'(?![A-Za-z0-9]))")
_CLOSES: Final = r"(?=\s{0,3}(?:%s|\\?[\"'`]|\n|\Z))"
"""What is after the quote that ends a value: one that is followed by other characters is a part of it."""


def _quoted(opening: str, closing: str, separator: str, escapes: str = "") -> re.Pattern[str]:
    """Return the pattern of a value in quotes, in which a doubled closing quote is a part of the value."""
    ends = closing + _CLOSES % separator
    inner = rf"{escapes}{closing}{closing}|(?!{ends})[^\n]"
    return re.compile(rf"{opening}(?P<text>(?>(?:{inner}){{0,4096}})){ends}")


_SEMICOLON_QUOTES: Final = (
    _quoted('"', '"', ";"),
    _quoted("'", "'", ";"),
    _quoted(r"\{", r"\}", ";", r"\$\{[A-Za-z_][\w.:-]{0,100}\}(?=\})|"),
)
_QUOTES: Final = {
    ";": _SEMICOLON_QUOTES,
    ",": (_quoted("'", "'", ","),),
    " ": (_quoted("'", "'", r"\s", r"\\[^\n]|"),),
    "\n": (_quoted("'", "'", r"\n"), _quoted('"', '"', r"\n", r"\\[^\n]|")),
}
_JOINED: Final = re.compile(r"\s*(?P<sign>[+&.,]|\|\|).*(?P=sign)\s*")
"""What is between two texts of a program that it joins, as in ``"Password=" + password + ";"``."""

_OF_YAML: Final = _quoted("''", "''", ";")
"""A single quote in a text that is in single quotes itself."""

_BARE: Final = {
    ";": "[^;\n]",
    ",": "[^,\n]",
    "&": rf"{REFERENCE_BY_NAME}|[^&\#;\s<>\"'`]",
    "?": rf"{REFERENCE_BY_NAME}|[^&\s]",
    " ": r"\\[^\n]|[^\s\\]",
    "\n": r"[^\n]",
}
_BARE_UP_TO: Final = {
    (family, enclosing): re.compile(
        rf"(?>(?:{f'(?!{enclosing})' if enclosing else ''}(?:{value})){{1,4096}})", re.VERBOSE
    )
    if family in {"&", "?"}
    else re.compile(
        rf"(?>(?:{f'(?!(?<!{_B}){enclosing})' if enclosing else ''}(?:{value})){{1,4096}})"
    )
    for _B in (r"\\",)
    for family, value in _BARE.items()
    for enclosing in ("", '"', "'", "`")
}
_LIST: Final = re.compile(
    r"""\s*(?>(?:--?[\w.-]{1,80}=)?)(?P<list>(?>(?:[\w .:-]{1,80}=\s*(?>"(?>(?:""|[^"]++)*)"|'(?>(?:''|[^']++)*)'|\{(?>(?:\}\}|[^}]++)*)\}|[^;]*+)\s*+(?:;\s*+|\Z))+))\Z"""
)
"""A text, or the value of a flag, that is nothing but ``key=value`` and semicolons."""

_BLANKS: Final = re.compile(r"[ \t]{0,3}")
_SECTION: Final = re.compile(r"""(?:[^\n\[]*["'`\s=])?\[[\w .:"-]{1,100}\]\s*""")
_LINE_OF_INI: Final = re.compile(r"\s*(?:[\w.-]{1,100}\s{0,5}[=:].*|[#;].*|)")

_GO: Final = re.compile(
    r"@(?:tcp[46]?|unix|udp|cloudsql|cloudsql-mysql)?\([\w.:/\[\]@%$<>{}-]{1,300}\)/"
)
_USER_OF_GO: Final = re.compile(
    r"(?P<before>[\w.-]{1,60}:\s{1,3}|-{0,2}[\w.-]{1,60}=|)(?P<user>[\w.%$<>{}+-]{1,100}):(?=\S)"
)
_LAST_USER_OF_GO: Final = re.compile(r"(?:(?<=\s)|(?<==))(?P<user>[\w.%$<>{}+-]{1,100}):(?=\S+\Z)")
_WORD: Final = re.compile(r"\S+")
_ORACLE: Final = re.compile(
    r"jdbc:oracle:\w{2,5}:(?P<user>\"[^\"\n]{1,100}\"|[^\s/@\"'`]{1,100})/", re.IGNORECASE
)
_PASSWORD_OF_ORACLE: Final = re.compile(
    r"(?P<quote>\\?\")(?P<quoted>[^\n]{1,200}?)(?P=quote)@|(?P<text>[^\n]{1,200})@(?=[\w(/\[<{$])"
)


def passwords(text: str, *, is_list: bool = False) -> list[Password]:
    """Return the values of a text that its connection strings have as passwords, in order.

    A list is a connection string if it has other keys of its family, as ``Server``.  With ``is_list`` the whole text is
    the value of a setting, so a list with semicolons needs no other keys.
    """
    candidates = sorted(
        chain(_logins(text), _values(text, is_list=is_list)), key=lambda one: (one.start, -one.end)
    )
    ends = 0
    apart = []
    for password in candidates:
        if password.start >= ends:
            apart.append(password)
            ends = password.end
    return apart


def is_password(key: str) -> bool:
    """Return whether a key means a password, rather than a key of an account or a token."""
    return _IS_PASSWORD.search(plain_name(key)) is not None


def _values(text: str, *, is_list: bool) -> Iterator[Password]:
    lower = text.lower()
    # Other letters can become two in lower case, which would move all places after them.
    lower = lower if len(lower) == len(text) else text
    signs = {
        ends.end() - 1
        for word in _WORDS
        for at in _places(lower, word)
        if (ends := _END_OF_KEY.match(text, at + len(word)))
    }
    sections: dict[int, bool] = {}
    line = _Line(text, 0, 0, sections)
    last_end = -1
    for sign in sorted(signs):
        if sign < last_end:
            continue
        if sign >= line.end:
            line = _line_at(text, sign, sections)
        password = _value(line, sign, is_list=is_list)
        if password is not None:
            last_end = password.end
            yield password


def _value(line: _Line, sign: int, *, is_list: bool) -> Password | None:
    text = line.text
    written = _KEY.search(text, max(line.start, sign - 80), sign)
    if written is None or _SECRET_KEY.search(plain_name(written[0].strip())) is None:
        return None
    family = _family(line, written, sign, is_list=is_list)
    if not family:
        return None
    key = written[0].split()[-1] if family == " " else written[0].strip()
    key_start = written.end() - len(written[0][written[0].rindex(key) :])
    enclosing = line.enclosing(written.start())
    blanks = _BLANKS.match(text, sign + 1)
    start = blanks.end() if blanks else sign + 1
    quotes: tuple[re.Pattern[str], ...] = _QUOTES.get(family, ())
    if enclosing == "'" and family == ";":
        quotes = (_OF_YAML, *quotes)
    for quote in quotes:
        if quoted := quote.match(text, start):
            is_code = quoted[0][0] == enclosing and _JOINED.fullmatch(quoted["text"]) is not None
            if not quoted["text"] or is_code:
                return None
            if family == "\n":
                return Password(
                    key, key_start, *quoted.span("text"), quoted.start("text"), quoted["text"]
                )
            span, is_in_braces = quoted.span(), quoted[0][0] == "{"
            return Password(
                key, key_start, *span, quoted.start("text"), quoted["text"], is_in_braces
            )
    bare = _BARE_UP_TO[family, enclosing].match(text, start)
    value = bare[0].rstrip() if bare else ""
    # The rest of a quote with an escape: the text without escapes has the value.
    if not value or value.startswith(('\\"', "\\'")) or (family == "\n" and value[0] in "[{"):
        return None
    is_of_shell = not enclosing and len(value.split()) > 1
    return Password(
        key, key_start, start, start + len(value), start, value, can_be_of_a_shell=is_of_shell
    )


def _family(line: _Line, key: re.Match[str], sign: int, *, is_list: bool) -> str:
    """Return the separator of the list that a key belongs to; empty if the list is no connection string."""
    text = line.text
    separator = text[key.start() - 1] if key.start() > line.start else ""
    words = key[0].split()
    if separator and separator in "?&":
        if not is_password(key[0]) or not line.has(line.urls, sign, after=False):
            return ""
        return "?" if line.has(line.drivers, sign, after=False) else "&"
    if separator in {",", "/"} and line.has(line.commas, sign):
        return ","
    is_whole = is_list and line.list_start >= 0
    if separator == ";":
        is_code = _CODE.match(key[0]) is not None
        is_url = is_password(key[0]) and line.has(line.urls, sign, after=False)
        is_shown = is_url or line.has(line.semicolons, sign)
        return ";" if is_whole or (is_shown and not is_code) else ""
    if not separator and _is_in_section(line):
        return "\n"
    if is_whole and key.start() == line.list_start:
        return ";"
    if line.has(line.firsts, sign) and not _CODE.match(key[0]):
        return ";"
    is_after_blank = len(words) > 1 or key[0][:1].isspace() or not separator or separator in "\"'`="
    is_of_blanks = _SECRET_KEY.search(plain_name(words[-1])) is not None and is_after_blank
    return " " if is_of_blanks and line.has(line.blanks, sign) else ""


def _is_in_section(line: _Line) -> bool:
    """Return whether a line and those above it, up to a ``[section]``, are lines of an ini document."""
    text, starts, passed = line.text, line.start, list[int]()
    while starts not in line.sections:
        passed.append(starts)
        above = text[text.rfind("\n", 0, max(starts - 1, 0)) + 1 : max(starts - 1, 0)].rstrip("\r")
        if starts and not _SECTION.fullmatch(above) and _LINE_OF_INI.fullmatch(above):
            starts = text.rfind("\n", 0, starts - 1) + 1
        else:
            line.sections[starts] = starts > 0 and _SECTION.fullmatch(above) is not None
    line.sections.update(dict.fromkeys(passed, line.sections[starts]))
    return line.sections[starts]


class _Line:
    """A line of a text, and the places in it that decide to which list a key belongs.

    Each is read once for all keys of the line: a document can be one line of megabytes.
    """

    def __init__(self, text: str, start: int, end: int, sections: dict[int, bool]) -> None:
        self.text = text
        self.start = start
        self.end = end
        self.sections = sections
        """Whether the line at a place, and those above it that were read, are below a section."""

    @cached_property
    def semicolons(self) -> list[int]:
        return [key.start() for key in _OF_SEMICOLONS.finditer(self.text, self.start, self.end)]

    @cached_property
    def firsts(self) -> list[int]:
        keys = _OF_SEMICOLONS.finditer(self.text, self.start, self.end)
        return [key.start() for key in keys if key["first"]]

    @cached_property
    def blanks(self) -> list[int]:
        return [key.start() for key in _OF_BLANKS.finditer(self.text, self.start, self.end)]

    @cached_property
    def commas(self) -> list[int]:
        return [key.start() for key in _OF_COMMAS.finditer(self.text, self.start, self.end)]

    @cached_property
    def urls(self) -> list[int]:
        return [sign.start() for sign in _OF_URLS.finditer(self.text, self.start, self.end)]

    @cached_property
    def drivers(self) -> list[int]:
        return [sign.start() for sign in _OF_DRIVERS.finditer(self.text, self.start, self.end)]

    @cached_property
    def list_start(self) -> int:
        """Where a list with semicolons begins that is all of the text, after a flag; -1 if the text has something else."""
        is_all = self.start == 0 and "\n" not in self.text.strip()
        whole = _LIST.fullmatch(self.text) if is_all and ";" in self.text else None
        return whole.start("list") if whole else -1

    @cached_property
    def _enclosed(self) -> list[tuple[int, str]]:
        """The places where a quoted part of the line begins or ends, and the innermost open quote after each."""
        changes: list[tuple[int, str]] = []
        opened: list[str] = []
        for quote in _QUOTE.finditer(self.text, self.start, self.end):
            if quote[0] in opened:
                del opened[opened.index(quote[0]) :]
            elif not opened or not self.text[quote.end() : quote.end() + 1].isspace():
                opened.append(quote[0])
            changes.append((quote.start(), opened[-1] if opened else ""))
        return changes

    def enclosing(self, at: int) -> str:
        """Return the quote that is open at a place; empty if none is."""
        last = bisect_right(self._enclosed, (at - 1, "\x7f")) - 1
        return self._enclosed[last][1] if last >= 0 else ""

    def has(self, places: list[int], at: int, *, after: bool = True) -> bool:
        """Return whether one of the places is near another one."""
        first = bisect_right(places, at - _REACH)
        return first < len(places) and places[first] < at + (_REACH if after else 0)


def _line_at(text: str, at: int, sections: dict[int, bool] | None = None) -> _Line:
    ends = text.find("\n", at)
    start = text.rfind("\n", 0, at) + 1
    return _Line(
        text, start, ends if ends >= 0 else len(text), {} if sections is None else sections
    )


def _logins(text: str) -> Iterator[Password]:
    """Yield the passwords before the host in texts of Go's driver for MySQL and of Oracle's for Java."""
    line = _Line(text, 0, 0, {})
    for host in _GO.finditer(text) if "(" in text else ():
        if host.start() >= line.end:
            line = _line_at(text, host.start())
        start = max(line.start, host.start() - 400)
        user = _USER_OF_GO.match(text, start, host.start())
        is_all = line.start == 0 and line.end == len(text)
        if user is None or not (is_all or _WORD.fullmatch(text, user.end(), host.start())):
            # A quote in the password would be taken for that around it, so only here.
            if enclosing := line.enclosing(host.start()):
                start = max(start, text.rfind(enclosing, start, host.start()) + 1)
            user = _USER_OF_GO.match(text, start, host.start())
            user = user or _LAST_USER_OF_GO.search(text, start, host.start())
        if user is not None:
            value = text[user.end() : host.start()]
            yield Password(
                "password", user.start("user"), user.end(), host.start(), user.end(), value
            )
    line = _Line(text, 0, 0, {})
    for user in _ORACLE.finditer(text) if "racle:" in text or "RACLE:" in text else ():
        if user.start() >= line.end:
            line = _line_at(text, user.start())
        enclosing = line.enclosing(user.start())
        ends = text.find(enclosing, user.end(), line.end) if enclosing else -1
        password = _PASSWORD_OF_ORACLE.match(text, user.end(), line.end)
        if password is not None and not password["quote"] and ends >= 0:
            password = _PASSWORD_OF_ORACLE.match(text, user.end(), ends)
        if password is not None:
            group = "quoted" if password["quote"] else "text"
            yield Password(
                "password",
                user.start(),
                password.start(),
                password.end() - 1,
                password.start(group),
                password[group],
            )


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
