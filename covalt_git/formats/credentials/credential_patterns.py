"""Patterns of the forms in which a document writes a credential: flags, headers, assignments, parameters and logins.

:mod:`.literal_credentials` decides whether the name of a value that one of them matches says that it is a credential.
"""

from __future__ import annotations

import re

from covalt_git.credentials.named_values import SCHEMES
from covalt_git.credentials.value_patterns import BRACES, HOST, REFERENCE_BY_NAME, USER

SCHEME = re.compile(SCHEMES, re.IGNORECASE)
ANNOUNCED_BY_SCHEME = re.compile(
    r"\A(?P<before>(?:bearer|basic)\s+)(?P<value>(?!(?:auth\w*|tokens?)\Z)\S+)\s*\Z", re.IGNORECASE
)
"""What a scheme announces is a credential whatever its name is: a header of any name, or the variable for it."""

AFTER_SCHEME = re.compile(
    r"(?P<before>(?<![\w.-])(?P<name>[\w.-]+)[:=]\s*['\"]?(?i:bearer|basic)\s+)(?P<value>[^\s'\"]+)"
)
"""The same in a header or an assignment in a longer text."""

WHOLE_FLAG = re.compile(r"\A(?P<before>--?(?P<name>[\w.:-]+)=)(?P<value>.+)", re.DOTALL)
"""A flag with its value that is all of an argument, so that the value can have spaces."""

FLAG_NAME = r"[\w.-]+(?::[\w.-]+){0,4}"
FLAGS = tuple(
    re.compile(
        rf"(?<![\w.-])(?P<before>--?(?P<name>{FLAG_NAME})(?:=|\s+(?:--\s+)?){quote})(?P<value>{value})"
    )
    for quote, value in (("'", "[^']+"), ('"', '[^"]+'), ("", r"(?![-$`])[^\s'\"]+"))
)
"""A flag in a line for a shell.  Its value ends at a space or at its quote: after it come the other flags."""

IS_FLAG = re.compile(r"--?[\w.:-]+")
HEADER_NAME = r"(?P<before>(?P<name>[\w.-]+):\s*(?:(?i:bearer|basic|token)\s+)?)"
HEADERS = (
    re.compile(rf"\A{HEADER_NAME}(?P<value>\S.*)", re.DOTALL),
    re.compile(rf"(?<=['\"]){HEADER_NAME}(?P<value>[^\s'\"][^'\"]*)"),
    re.compile(rf"(?<=[\s=]){HEADER_NAME}(?P<value>[^\s'\"]+)"),
)
"""A header that is all of a text, in quotes, or a word of a command; what follows it belongs to the command."""

# An atomic group takes 115 bytes of memory for each repetition, so those of a text of any size have a limit (also in LOGIN).
PARAMETER = re.compile(
    rf"""(?P<before>[?&\#](?P<name>[\w.%\[\]-]+)=)(?P<value>(?>(?:{REFERENCE_BY_NAME}|[^&\#\s]){{1,65536}}))""",
    re.VERBOSE,
)
"""A parameter of a URL; a reference in it can have blanks, as ``${{ secrets.KEY }}``."""

NAME = r"(?:(?<![\w.$-])|(?<=-[eD]))(?P<name>[A-Za-z_][\w.-]*)"
ASSIGNMENT = re.compile(
    r"\A(?P<before>(?:-[eD]|--env=)?(?P<name>[A-Za-z_][\w.:-]*)=)(?P<value>.+)", re.DOTALL
)
"""``NAME=value`` that is all of an argument, as after ``docker run -e``."""

ASSIGNMENTS = (
    re.compile(rf"(?P<before>{NAME}=')(?P<value>[^']+)"),
    re.compile(rf'(?P<before>{NAME}=")(?P<value>[^"]+)'),
    re.compile(rf"(?P<before>{NAME}=)(?P<value>[^\s'\"`$;&|()<>][^\s'\"`;&|()<>]*)"),
    re.compile(  # csh and fish
        r"(?P<before>\b(?:setenv|set\s+-\w*x\w*)\s+(?P<name>[A-Za-z_]\w*)\s+['\"]?)(?P<value>[^\s'\"`$;&|()<>][^\s'\"`;&|()<>]*)"
    ),
)
"""The same in a line for a shell, or in a connection string."""

MEMBER = re.compile(
    r"""(?P<before>(?<!\\)\\{0,7}"(?P<name>[\w.:/ -]{1,100})\\{0,7}"\s*:\s*\\{0,7}")(?P<value>[^"\\]+)"""
)
"""A member of a JSON object in a text, also with quotes that are escaped for a shell."""

WRITTEN_VALUES = (
    *(
        re.compile(
            rf"(?P<before>(?<![\w.$-])['\"]?(?P<name>[A-Za-z_][\w.-]{{0,99}})['\"]?\s{{0,3}}[:=]\s{{0,3}}\$?{quote})"
            rf"(?P<value>[^{quote}\\]+)(?={quote})"
        )
        for quote in ("'", '"')
    ),
    re.compile(
        r"(?P<before>(?<![\w.$-])(?P<name>[A-Za-z_][\w.-]{0,99}) {1,3}= {1,3})(?P<value>[^\s'\"`$=~<>]\S*)"
    ),
)
"""A value as Python, JavaScript, TOML and PowerShell write it: ``{'apiKey': '...'}``, ``$env:API_KEY = '...'``."""

SLASH_FLAG = re.compile(r"\A(?P<before>/(?P<name>[A-Za-z][\w.-]*)[:=])(?P<value>[^/\\]{3,})\Z")
"""``/password:...`` of a program of Windows; what has another slash is a path."""

MATRIX_PARAMETER = re.compile(
    r"(?P<before>;(?P<name>[\w.%\[\]-]+)=)(?P<value>[^&#;$\s'\"`][^&#;\s'\"`]*)"
)

USER_FLAG = re.compile(r"-u|-U|--user|--proxy-user|--login")
_USER_OF_FLAG = rf"""(?P<name>(?:\$?\$?{BRACES}|[^\s:'\"={{}}])+)"""
"""A user, which can be a reference with a colon, as ``${{NAME:-default}}``."""

LOGIN_OF_FLAG = re.compile(rf"(?P<before>{_USER_OF_FLAG}:)(?P<value>[^\s'\"]+)")
CURL = re.compile(
    rf"(?P<before>(?<!\S)(?:{USER_FLAG.pattern})[\s=]*['\"]?{_USER_OF_FLAG}:)(?P<value>[^\s'\"]+)"
)
"""The user and the password of ``curl -u ann:secret``."""

PROGRAMS_WITH_GLUED_P = r"mysql|mysqldump|mysqladmin|mariadb|mariadb-dump|mariadb-admin|sshpass"
PASSWORDS = (
    re.compile(
        rf"(?P<before>\b(?:{PROGRAMS_WITH_GLUED_P})\s(?:[^;&|\n]{{0,300}}?\s)?-p['\"]?)(?P<value>[^\s'\"]+)"
    ),
    re.compile(
        r"(?P<before>\b(?:login|sshpass)\s(?:[^;&|\n]{0,300}?\s)?-p\s+['\"]?)(?P<value>[^\s'\"]+)"
    ),
)
"""``mysql -pVALUE`` and ``docker login -p VALUE``; for other programs ``-p`` is a port or a project."""

SHELL_FLAG = re.compile(r"-[a-z]*c|/c|-command", re.IGNORECASE)
JOINS = r"\s\"'`;:,/=@&|()<>.+-"
REFERENCES = re.compile(
    rf"""(?:(?<![^{JOINS}])[\w.-]{{1,64}}=["']?)?
        (?: {REFERENCE_BY_NAME}
          | (?<![^{JOINS}])\$?\$[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*(?![^{JOINS}]) )""",
    re.VERBOSE,
)
"""A reference, also as ``name=reference``.  ``$NAME`` only as a whole word: passwords have a ``$`` too.

``toolset.yaml`` writes the references of others with ``$$``.
"""

WORD_OF_A_NAME = re.compile(r"[a-z][a-z0-9-]*")
"""What follows the first ``-`` in ``${api-key}``, which is the name of an input."""

URL = re.compile(r"[A-Za-z][\w+.:-]*://")
IN_BRACES = re.compile(rf"\$?\$?{BRACES}")
HTTP = re.compile(r"https?://", re.IGNORECASE)
WHOLE_LOGIN = re.compile(
    rf"\A(?P<before>https?://)(?P<value>(?!\$?{BRACES}@)(?=[^\s/?#]*:)[^\s/?#]+)@{HOST}",
    re.IGNORECASE,
)
"""The user and the password in the URL of an MCP server, which toolset.yaml sends together as a header.

A user name without a password does not match: it is not secret.
"""

PATH_SEGMENT = re.compile(r"(?P<before>(?<=[^/])/)(?P<value>[A-Za-z0-9._~%:=-]{20,})(?=[/?#]|\Z)")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
END_OF_SERVER = re.compile(r"/(?:mcp|sse)/?(?:[?#]|\Z)")
"""The end of a URL after its key, as Zapier, Composio and Pipedream hand it out."""

LOGIN_PART = rf"""(?:{BRACES}|[^\s/@"'`])"""
LOGIN = re.compile(
    rf"(?P<before>://{USER}:)(?!(?:\d{{1,5}}|\$?{BRACES}|\$\w+)[?#])"
    rf"(?P<value>(?>{LOGIN_PART}{{1,65536}}(?:@(?>{LOGIN_PART}{{1,65536}})(?=@))*))@{HOST}"
)
"""The login of a URL anywhere in a text; a password can have an ``@``.  What ``?`` follows is a port."""

BEFORE_A_VALUE = r"""(?:=\s{0,3}['"{]?|:\s{0,3}\\*['"])"""
REST = r"""(?!\Z|[\s#]|\\*["'`]+(?![\w\\])|[;&,?](?:amp;)?(?:\s*[\w.%\[\] :-]{1,80}=|\s*\Z|\s*["'`])|[)\]}>]+(?:\Z|[\s,;"'`]))"""
"""What follows a reference if a part of the value that it replaced is still there."""

PLACEHOLDER = re.compile(
    r"<[^<>]*>|\{[\w.-]+\}|true|false|none|null|[\d.]{1,6}|\$args\.[\w.\[\]-]+", re.IGNORECASE
)

USERS_PLACEHOLDER = re.compile(
    r"<[A-Za-z][^<>\n]{0,60}>|(?<![$\w{])(?P<doubled>\{)?\{ ?[A-Za-z_][\w .-]{0,60}\}(?(doubled)\}|(?!\}))"
)
"""What people write in a client's file in place of a value; the client gives it to the server as it is.

In the middle of a word, braces can be a variable of the server.
"""
