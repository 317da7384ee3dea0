"""Patterns of the values after a name, in a reference and in an address, which may be credentials.

:mod:`.leaks` decides whether a value that one of them matches looks generated.
"""

from __future__ import annotations

import re

KEY_WORDS = (
    *("key", "secret", "password", "passwd", "passphrase", "token", "authorization", "auth"),
)
KEY_BEGINS = re.compile(r"[\w.-]{0,40}\Z")
WORDS_BEFORE = 20
"""Number of characters before ``key`` that have the words below, also with a space between them."""

LOCKS = (
    r"api|access|private|secret|auth|account|signing|master|(?:en|de)cryption|subscription|licen[sc]e|shared|storage"
    r"|service|admin|client|consumer|app|application|deploy|integration|activation|function|functions|hmac|aes|jwt"
)
KEY_OF_A_LOCK = rf"(?i)(?:{LOCKS})\Z"
"""Words before ``key`` that make it a credential, not the key of a mapping or of a table."""

VALUED = (
    r"\$?\$\{(?:(?:input:[\w.-]{1,100}?|(?:\w{1,20}:)?[A-Za-z_]\w{0,100}(?:\.[\w.-]{1,100}?)?):(?=[-=+?])"
    r"|(?:env:)?[A-Za-z_]\w{0,100}(?=[-=+?]))"
)
"""The start of a reference that has a value itself, without its sign: the name can have dots only before a colon."""

END_OF_A_NAME = r"s?(?:[_-]?[0-9]{1,3})?"
"""What can be between the word of a name and its end: a plural, a number."""

SIGN = rf"""{END_OF_A_NAME} (?: ["'`\]]{{1,2}}\s{{0,3}}, | ["'`\]]{{0,2}}\s{{0,3}}(?::=|=>|:|=) ) \s{{0,3}}"""
"""What is between a name and its value."""

TYPE = r"""[?!]?\s{0,3}(?::|\s)\s{0,3}["'&A-Za-z_][\w.<>\[\]|?&"' ]{0,40}?\s{0,3}="""
SIGN_BEFORE_QUOTES = rf"""{END_OF_A_NAME}
    (?: ["'`\])]{{0,3}}\s{{0,3}} (?:[=!]==?|[|]{{2}}=?|[?]{{2}}=?|\bor\b|:=|=>|=|:(?!:))
      | ["'`\]]{{1,2}}\s{{0,3}}, | {TYPE} )
    \s{{0,3}} (?:[(\[]{{1,2}}\s{{0,3}})? (?-i:\b[rRbBfFuU]{{1,2}})?"""
"""The same before a value in quotes: also a comparison, a default, a type, brackets and the prefix of a text."""

REFERENCE_MARKS = ("${", "{{", "{%", "#{", "%{")
LONGEST_REFERENCE = 400
"""Number of characters, before and after a name, in which its reference is looked for."""

REST_OF_A_REFERENCE = re.compile(
    rf"(?>(?:[^{{}}]|\{{(?>(?:[^{{}}]|\{{[^{{}}]{{0,100}}+\}}){{0,100}})\}}){{0,{LONGEST_REFERENCE}}})\}}?"
)
SPACE = r"\s{1,3} (?=[^-])"
"""What is between ``--api-key`` and its value; elsewhere a space separates words of a sentence."""

SCHEME = r"(?:[a-z][a-z0-9_-]{0,30}\s{1,3})?"
"""What a header has before its value; each service invents a scheme of its own."""

USER_OF_VALUE = (
    r"(?!(?:sha[0-9]{0,3}|md5|arn|urn):)[A-Za-z][A-Za-z._@+-]{0,60}[0-9]{0,4}:(?!//)(?=.)"
)
"""The user of ``ann:secret``, which is no part of the secret."""

FLAG_OF_VALUE = r"--?[A-Za-z][\w.-]{0,60}=|[A-Za-z][A-Za-z_-]{1,60}="
SIGNS = r"[A-Za-z0-9!#$%&()*+,./:;=?@\[\]^_|~-]{16,200}+"
"""The letters and signs of a value in quotes.  A text with braces or ``<`` is a template."""

VALUE_IN_A_REFERENCE = re.compile(
    rf"""(?:(?P<quote>["'`])|:?[-=+?]|:){SCHEME}(?:{USER_OF_VALUE})?"""
    rf"""(?P<value>[^\s{{}}"'`<]{{16,200}}+)(?(quote)(?P=quote)|(?=\s{{0,3}}\}}))""",
    re.IGNORECASE,
)
"""A literal in a reference: in quotes, or after an operator at its end, as in ``${API_KEY:-value}``."""

REFERENCE_AFTER_A_SIGN = re.compile(
    rf"""(?:{SIGN}|{SPACE}) ["'`]?{SCHEME} (?:\$\{{|\$?\{{\{{)""", re.VERBOSE | re.IGNORECASE
)
LETTERS = r"[A-Za-z0-9+/_.~-]{16,200}+"
LETTERS_AND_MARKS = r"[A-Za-z0-9+/_.~!@-][A-Za-z0-9+/_.~!@$-]{15,199}+"
"""The same for a password that a program has generated.  ``$`` at the beginning is that of a variable."""


def _value_after(sign: str, before_quotes: str, scheme: str = "") -> tuple[re.Pattern[str], ...]:
    """Return the patterns for a value after a sign, the longer value first."""
    prefix = rf"{scheme} (?:{USER_OF_VALUE})?"
    patterns = (
        rf"""{before_quotes} (?P<quote>["'`]) {prefix} (?P<value>{SIGNS}) (?P=quote)""",
        *(
            rf"""{sign} ["'`]? {prefix} (?P<value> {letters} ={{0,2}} ) (?![\w(\[{{<$%*.=])"""
            for letters in (LETTERS_AND_MARKS, LETTERS)
        ),
    )
    return tuple(re.compile(pattern, re.VERBOSE | re.IGNORECASE) for pattern in patterns)


VALUES = _value_after(SIGN, SIGN_BEFORE_QUOTES, SCHEME)
VALUES_OF_A_FLAG = _value_after(SPACE, SPACE)

KINDS_OF_NAMES = (
    "env|input|inputs|secret|secrets|vault|config|command|cmd|file|sys|ssm|op|keychain|credential|user_config"
    "|workspaceFolder|workspaceRoot|promptString"
)
"""What precedes a colon in a reference, so that a name follows, and no value as in ``${NAME:value}`` of Spring."""

REFERENCE_BY_NAME = rf"""\$?\$\{{\s{{0,3}} (?:(?:{KINDS_OF_NAMES}):[\w.:/#-]{{0,200}}|[\w.-]{{0,200}}) \s{{0,3}}\}}
      | \$?\$?\{{\{{\s{{0,3}} [\w.:$-]{{0,100}} (?:\[["'][\w.-]{{1,100}}["']\])?
        (?:\s{{0,3}}\|\s{{0,3}}\w{{1,40}}){{0,3}} \s{{0,3}}\}}\}}
      | \{{env: [\w.-]{{0,100}} \}}"""
"""A reference with nothing but a name, and filters of it: other words in it can be a value, as in ``{{ x or 'y' }}``."""

REFERENCE = re.compile(
    rf"""{REFERENCE_BY_NAME}
      | < [^<>\s]{{1,100}} > | %\( \w{{1,100}} \)s""",
    re.VERBOSE,
)
"""A reference in a value, without the operator of a shell."""

PART_OF_A_REFERENCE = re.compile(
    rf"(?P<operator>(?P<begins>{VALUED})(?P<sign>[-=+?]))|(?P<brace>[{{}}])"
)
"""The start of a reference that has a value itself, ``${NAME:-`` or what else shells and Compose have, or a brace."""

MOST_WORDS = 8
WORDS_AT_START = 2
WORD_OF_VALUE = re.compile(r"""[^\s"'`]{16,4096}""")
NO_VALUE = re.compile(
    r"""[A-Za-z][\w+.-]{0,30}:// | (?:sha[0-9]{0,3}|md5|arn|urn): | \$?\$[A-Za-z_]\w*(?:[.:]\w+)*\Z
      | \$\( | %\w+%\Z | [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9:]+)?\Z | [{\[]["'{\[]""",
    re.VERBOSE,
)
"""A text that is no value of its own: an address, a digest, a reference, a time, a document."""

BRACES = r"\{(?>(?:[^{}\n]|\{[^{}\n]{0,100}+\}){0,100})\}"
"""A reference in braces, such as ``${USER}`` without its ``$``, also with another one as its default."""

USER = rf"""(?>(?:{BRACES}|<[^<>\s]{{1,100}}>|[^\s/:@"'`<>{{}}*]){{0,100}})"""
"""The user of a URL, which can be a reference, or be missing, as for Redis."""

HOST = r"(?=[\w\[$<{%/])"
"""The start of the host of a URL, or of a reference to it; a URL with a socket has none."""

USER_ALONE = re.compile(
    rf"""(?P<value>[A-Za-z0-9+_.~%!-][A-Za-z0-9+_.~%!$-]{{15,199}})
        (?::(?>(?:{BRACES}|[^\s/@"'`<>{{}}]){{0,100}}))?@{HOST}""",
    re.VERBOSE,
)
"""A token in place of the user, as hosts of git take it; a password after it has no meaning."""

USER_AND_PASSWORD = re.compile(
    rf"""(?P<user>{USER}(?:@[^\s/:@"'`<>{{}}*]{{1,100}})?): (?:(?:{VALUED}[-=+]){{1,9}}(?=[^{{}}]{{1,200}}\}}{{1,9}}@))?
        (?P<value>
          (?!\d{{1,5}}[?\#])
          (?!(?>(?:(?:\$?\$[A-Za-z_]\w*|\$\([\w.-]{{1,100}}\)|%\(\w{{1,100}}\)s|%[A-Za-z_]\w{{0,100}}%)[.-]?)+)@)
          [^\s/@"'`<>{{}}\\]{{6,200}})\}}{{0,9}}@{HOST}""",
    re.VERBOSE,
)
"""A password can have a ``$``, or be the default of a reference; variables alone are references.

The user can be an address of mail.  What ``?`` follows is a port.
"""

BESIDE_A_REFERENCE = r"""[^\s/@"'`<>{}]{0,60}"""
PASSWORD_WITH_REFERENCES = re.compile(
    rf"""{USER}(?:@[^\s/:@"'`<>{{}}*]{{1,100}})?:
        (?P<password>{BESIDE_A_REFERENCE}(?:(?:[$#%]\$?)?(?:{BRACES})|<%[^%\n]{{1,200}}+%>){BESIDE_A_REFERENCE})@{HOST}""",
    re.VERBOSE,
)
"""A password that is a reference of any template language, or that has one."""

DEFAULT_PASSWORD = re.compile(
    r"""(?P<quote>["'`])(?P<text>[^\s{}"'`<]{6,200}+)(?P=quote)|:?[-=+:](?P<value>[^\s{}"'`<]{6,200}+)\}"""
)
"""A literal in a reference in place of a password: in quotes, or after an operator other than that of a message."""

NAME_IN_QUOTES = re.compile(r"[A-Z_][A-Z0-9_]*|[\w.-]*/[\w./-]*")
"""The name of a variable, or a path, as ``env['DB_PASS']`` and ``lookup('file', ...)`` have it."""

REFERENCE_OF_A_TEMPLATE = re.compile(
    rf"""\A\s*(?:\$?\$[A-Za-z_]\w*(?:[.:]\w+)*|{REFERENCE_BY_NAME})(?:[\s"'`].*)?\Z
      | {REFERENCE.pattern} | \$\([^()\n]{{1,200}}\) | %[A-Za-z_]\w{{0,100}}%
      | [$\#%]\$?{BRACES} | \{{\{{[^{{}}\n]{{1,200}}\}}\}} | <%[^%\n]{{1,200}}%> | <[A-Za-z][^<>\n]{{1,100}}>""",
    re.VERBOSE,
)
"""A reference of any template language in the password of a connection string; ``$NAME`` only as its first word.

What follows a first word is the rest of a command of a shell.
"""

NAME_IN_BRACES = re.compile(r"[A-Za-z_][A-Za-z_.]*[0-9]?")
"""A placeholder such as ``{db_password}``."""
