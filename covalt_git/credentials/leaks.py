"""Detection of credentials in texts: tokens of known formats, and random values after keys like ``api_key``.

The formats are those that providers document and that the rules of gitleaks collect.  A token of a known
format is certain; a value after ``api_key:`` is reported as a guess.  Placeholders are ignored:
``<YOUR_API_KEY>``, ``sk-xxxx``, ``${NAME}``.  Only the first characters of a credential are ever shown.
"""

from __future__ import annotations

import base64
import math
import re
import string
import sys
from bisect import bisect_right
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.credentials.plain_names import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHOWN = 4
"""Number of a credential's first characters that are shown."""

MAX_FOUND = 500
"""Most tokens, and most guesses, that are reported for one text."""

_INK = re.compile(r"[^\r\n]")
_RECOGNIZED = 8
"""A text that begins with this many characters of a credential is masked as a part of it."""


class Credential(NamedTuple):
    """A credential at the character ``place`` of a text; ``certain`` if it has a known format."""

    place: int
    kind: str
    value: str
    certain: bool

    @property
    def shown(self) -> str:
        """The part of it that may be shown."""
        return f"{self.value[:SHOWN]}..."


def _shape(begins: str, kind: str, pattern: str) -> tuple[tuple[str, ...], str, str]:
    # Before a token may be the end of a flag or a default (`--token-`, `${T:-`), an escape of JSON or of a URL.
    before = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
    return tuple(begins.split()), kind, rf"{before}{pattern}(?![A-Za-z0-9])"


_SHAPES = (
    _shape("ghp_ gho_ ghu_ ghs_ ghr_", "a GitHub token", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _shape("github_pat_", "a GitHub token", r"github_pat_[A-Za-z0-9_]{50,255}"),
    _shape("glpat- gldt- glrt-", "a GitLab token", r"gl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,64}"),
    _shape("AKIA ASIA ABIA ACCA", "an AWS access key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    _shape("xoxb- xoxp- xoxa- xoxr- xoxs- xoxe", "a Slack token", r"xox[abeprs](?:\.xox[bp])?-[A-Za-z0-9-]{20,250}"),
    _shape("xapp-", "a Slack token", r"xapp-[0-9]-[A-Za-z0-9-]{30,250}"),
    _shape("hooks.slack.com/", "a Slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/+]{40,80}"),
    _shape("/api/webhooks/", "a Discord webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,80}"),
    _shape("sk-ant-", "an Anthropic key", r"sk-ant-[a-z0-9]{3,10}-[A-Za-z0-9_-]{40,200}"),
    _shape("sk-proj- sk-svcacct- sk-admin-", "an OpenAI key", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,250}"),
    _shape("sk-", "an API key", r"sk-[A-Za-z0-9]{20,64}"),
    _shape("sk-or-v1-", "an OpenRouter key", r"sk-or-v1-[0-9a-f]{64}"),
    _shape("AIza", "a Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    _shape("GOCSPX-", "a Google client secret", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _shape("ya29.", "a Google access token", r"ya29\.[A-Za-z0-9_-]{40,}"),
    _shape("sk_live_ rk_live_ sk_test_ rk_test_", "a Stripe key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{12,200}"),
    _shape("whsec_", "a webhook secret", r"whsec_[A-Za-z0-9+/]{30,80}"),
    _shape("npm_", "an npm token", r"npm_[A-Za-z0-9]{36}"),
    _shape("pypi-AgE", "a PyPI token", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _shape("cvg_", "an agent's token of covalt-git", r"cvg_[A-Za-z0-9]{43}"),
    _shape("hf_", "a Hugging Face token", r"hf_[A-Za-z0-9]{34}"),
    _shape("SG.", "a SendGrid key", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _shape(":AA", "a Telegram bot token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    _shape("dop_v1_ doo_v1_ dor_v1_", "a DigitalOcean token", r"do[opr]_v1_[0-9a-f]{64}"),
    _shape("dapi", "a Databricks token", r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    _shape("shpat_ shpca_ shppa_ shpss_", "a Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _shape("lin_api_ lin_oauth_", "a Linear key", r"lin_(?:api_[A-Za-z0-9]{40}|oauth_[0-9a-f]{64})"),  # gitleaks: linear-api-key; linear.app/developers/oauth-2-0-authentication
    _shape("ntn_", "a Notion token", r"ntn_[A-Za-z0-9]{40,50}"),
    _shape("gsk_", "a Groq key", r"gsk_[A-Za-z0-9]{52}"),
    _shape("xai-", "an xAI key", r"xai-[A-Za-z0-9]{70,90}"),
    _shape("pplx-", "a Perplexity key", r"pplx-[A-Za-z0-9]{40,64}"),  # gitleaks: perplexity-api-key; older keys are hexadecimal and longer
    _shape("r8_", "a Replicate token", r"r8_[A-Za-z0-9]{37}"),
    _shape("tvly-", "a Tavily key", r"tvly-(?:(?:dev|prod)-)?[A-Za-z0-9_-]{28,72}"),  # docs.tavily.com/documentation/api-reference/introduction; new keys have a dash inside
    _shape("fc-", "a Firecrawl key", r"fc-[0-9a-f]{32}"),  # docs.firecrawl.dev/api-reference/introduction; rule np.firecrawl.1 of noseyparker
    _shape("BSA", "a Brave Search key", r"BSA(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{24,32}"),  # api-dashboard.search.brave.com/app/keys
    _shape("sb_secret_ sbp_", "a Supabase key", r"(?:sb_secret_[A-Za-z0-9_-]{30,48}|sbp_(?:oauth_|fc)?[0-9a-f]{40})"),  # supabase.com/docs/guides/api/api-keys, GitGuardian: supabase_personal_access_token
    _shape("hvs. hvb.", "a Vault token", r"hv[sb]\.[A-Za-z0-9_-]{90,300}"),
    _shape("ATATT3 ATCTT3 ATSTT3", "an Atlassian token", r"AT[ACS]TT3[A-Za-z0-9_=-]{100,250}"),  # gitleaks: atlassian-api-token
    _shape("ATBB", "a Bitbucket app password", r"ATBB[A-Za-z0-9]{32}"),  # support.atlassian.com/bitbucket-cloud/docs/app-passwords
    _shape("PMAK-", "a Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _shape("figd_ figoh_ figor_", "a Figma token", r"fig(?:d|oh|or)_[A-Za-z0-9_-]{36,80}"),  # developers.figma.com/docs/rest-api/authentication
    _shape("sntrys_ sntryu_", "a Sentry token", r"sntry[su]_[A-Za-z0-9+/=_]{64,300}"),
    _shape("glsa_", "a Grafana token", r"glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    _shape("NRAK-", "a New Relic key", r"NRAK-[A-Z0-9]{27}"),
    _shape("dp.pt.", "a Doppler token", r"dp\.pt\.[A-Za-z0-9]{43}"),
    _shape("AGE-SECRET-KEY-1", "an age key", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    _shape("eyJ", "a JSON web token", r"eyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{20,}"),
)  # fmt: skip
"""The prefixes, the name and the pattern of each format.

A pattern is compiled only when a text contains one of its prefixes.
"""

_SHORTEST = 20
_SHORTEST_VALUE = 16
_BEGINNINGS = re.compile("|".join(re.escape(one) for begins, _, _ in _SHAPES for one in begins))

_ESCAPE = re.compile(
    r"""%(?:25)*(?P<url>[2-7][0-9A-Fa-f])
        | (?<!\\)\\++ (?: (?:u(?P<u4>[0-9A-Fa-f]{4}) | x(?P<x2>[0-9A-Fa-f]{2}) | U(?P<u8>00[0-9A-Fa-f]{6})
                            | u\{(?P<braces>[0-9A-Fa-f]{1,6})\})
                        | (?P<continued>\r?\n[ \t]*+)
                        | (?P<octal>[0-3]?[0-7]{1,2}) | (?P<letter>[abefnrtv]) | (?P<sign>["'/]) )""",
    re.VERBOSE,
)
"""An escape of a printable character of ASCII in a URL, or of any character in JSON, YAML, JavaScript or Python.

Each document in another one doubles the backslashes, and each URL in another one writes ``%25`` for ``%``, so their
number does not matter.  A backslash at the end of a line joins it with the next line, so a token can be split there.
"""

_PRIVATE_KEY = (
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?P<value>(?:(?!-----)[\s\S]){0,300}?[A-Za-z0-9+/=]{32,}+)"
    r"(?:(?:(?!-----)[\s\S]){0,20000}?-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?+"
)
"""All lines of the key, because each of them is a part of it."""

_BASIC = re.compile(r"(?i:\bbasic)\s{1,3}(?P<value>[A-Za-z0-9+/]{8,500}+={0,2})(?![\w+/=-])")
"""The user and the password of HTTP Basic in Base64 (RFC 7617), whatever the name before it is."""

_KEY_WORDS = (
    *("key", "secret", "password", "passwd", "passphrase", "token", "authorization", "auth"),
)
_KEY_BEGINS = re.compile(r"[\w.-]{0,40}\Z")
_WORDS_BEFORE = 20
"""Number of characters before ``key`` that have the words below, also with a space between them."""

LOCKS = (
    r"api|access|private|secret|auth|account|signing|master|(?:en|de)cryption|subscription|licen[sc]e|shared|storage"
    r"|service|admin|client|consumer|app|application|deploy|integration|activation|function|functions|hmac|aes|jwt"
)
_KEY_OF_A_LOCK = rf"(?i)(?:{LOCKS})\Z"
"""Words before ``key`` that make it a credential, not the key of a mapping or of a table."""

_VALUED = (
    r"\$?\$\{(?:(?:input:[\w.-]{1,100}?|(?:\w{1,20}:)?[A-Za-z_]\w{0,100}(?:\.[\w.-]{1,100}?)?):(?=[-=+?])"
    r"|(?:env:)?[A-Za-z_]\w{0,100}(?=[-=+?]))"
)
"""The start of a reference that has a value itself, without its sign: the name can have dots only before a colon."""

_END_OF_A_NAME = r"s?(?:[_-]?[0-9]{1,3})?"
"""What can be between the word of a name and its end: a plural, a number."""

_SIGN = rf"""{_END_OF_A_NAME} (?: ["'`\]]{{1,2}}\s{{0,3}}, | ["'`\]]{{0,2}}\s{{0,3}}(?::=|=>|:|=) ) \s{{0,3}}"""
"""What is between a name and its value."""

_TYPE = r"""[?!]?\s{0,3}(?::|\s)\s{0,3}["'&A-Za-z_][\w.<>\[\]|?&"' ]{0,40}?\s{0,3}="""
_SIGN_BEFORE_QUOTES = rf"""{_END_OF_A_NAME}
    (?: ["'`\])]{{0,3}}\s{{0,3}} (?:[=!]==?|[|]{{2}}=?|[?]{{2}}=?|\bor\b|:=|=>|=|:(?!:))
      | ["'`\]]{{1,2}}\s{{0,3}}, | {_TYPE} )
    \s{{0,3}} (?:[(\[]{{1,2}}\s{{0,3}})? (?-i:\b[rRbBfFuU]{{1,2}})?"""
"""The same before a value in quotes: also a comparison, a default, a type, brackets and the prefix of a text."""

_REFERENCE_MARKS = ("${", "{{", "{%", "#{", "%{")
_LONGEST_REFERENCE = 400
"""Number of characters, before and after a name, in which its reference is looked for."""

_REST_OF_A_REFERENCE = re.compile(
    rf"(?:[^{{}}]|\{{(?:[^{{}}]|\{{[^{{}}]{{0,100}}+\}}){{0,100}}+\}}){{0,{_LONGEST_REFERENCE}}}+\}}?"
)
_SPACE = r"\s{1,3} (?=[^-])"
"""What is between ``--api-key`` and its value; elsewhere a space separates words of a sentence."""

_SCHEME = r"(?:[a-z][a-z0-9_-]{0,30}\s{1,3})?"
"""What a header has before its value; each service invents a scheme of its own."""

_USER_OF_VALUE = (
    r"(?!(?:sha[0-9]{0,3}|md5|arn|urn):)[A-Za-z][A-Za-z._@+-]{0,60}[0-9]{0,4}:(?!//)(?=.)"
)
"""The user of ``ann:secret``, which is no part of the secret."""

_FLAG_OF_VALUE = r"--?[A-Za-z][\w.-]{0,60}=|[A-Za-z][A-Za-z_-]{1,60}="
_SIGNS = r"[A-Za-z0-9!#$%&()*+,./:;=?@\[\]^_|~-]{16,200}+"
"""The letters and signs of a value in quotes.  A text with braces or ``<`` is a template."""

_VALUE_IN_A_REFERENCE = re.compile(
    rf"""(?:(?P<quote>["'`])|:?[-=+?]|:){_SCHEME}(?:{_USER_OF_VALUE})?"""
    rf"""(?P<value>[^\s{{}}"'`<]{{16,200}}+)(?(quote)(?P=quote)|(?=\s{{0,3}}\}}))""",
    re.IGNORECASE,
)
"""A literal in a reference: in quotes, or after an operator at its end, as in ``${API_KEY:-value}``."""

_REFERENCE_AFTER_A_SIGN = re.compile(
    rf"""(?:{_SIGN}|{_SPACE}) ["'`]?{_SCHEME} (?:\$\{{|\$?\{{\{{)""", re.VERBOSE | re.IGNORECASE
)
_LETTERS = r"[A-Za-z0-9+/_.~-]{16,200}+"
_LETTERS_AND_MARKS = r"[A-Za-z0-9+/_.~!@-][A-Za-z0-9+/_.~!@$-]{15,199}+"
"""The same for a password that a program has generated.  ``$`` at the beginning is that of a variable."""


def _value_after(sign: str, before_quotes: str, scheme: str = "") -> tuple[re.Pattern[str], ...]:
    """Return the patterns for a value after a sign, the longer value first."""
    before = rf"{scheme} (?:{_USER_OF_VALUE})?"
    patterns = (
        rf"""{before_quotes} (?P<quote>["'`]) {before} (?P<value>{_SIGNS}) (?P=quote)""",
        *(
            rf"""{sign} ["'`]? {before} (?P<value> {letters} ={{0,2}} ) (?![\w(\[{{<$%*.=])"""
            for letters in (_LETTERS_AND_MARKS, _LETTERS)
        ),
    )
    return tuple(re.compile(pattern, re.VERBOSE | re.IGNORECASE) for pattern in patterns)


_VALUES = _value_after(_SIGN, _SIGN_BEFORE_QUOTES, _SCHEME)
_VALUES_OF_A_FLAG = _value_after(_SPACE, _SPACE)

_KINDS_OF_NAMES = (
    "env|input|inputs|secret|secrets|vault|config|command|cmd|file|sys|ssm|op|keychain|credential|user_config"
    "|workspaceFolder|workspaceRoot|promptString"
)
"""What precedes a colon in a reference, so that a name follows, and no value as in ``${NAME:value}`` of Spring."""

REFERENCE_BY_NAME = rf"""\$?\$\{{\s{{0,3}} (?:(?:{_KINDS_OF_NAMES}):[\w.:/#-]{{0,200}}|[\w.-]{{0,200}}) \s{{0,3}}\}}
      | \$?\$?\{{\{{\s{{0,3}} [\w.:$-]{{0,100}} (?:\[["'][\w.-]{{1,100}}["']\])?
        (?:\s{{0,3}}\|\s{{0,3}}\w{{1,40}}){{0,3}} \s{{0,3}}\}}\}}
      | \{{env: [\w.-]{{0,100}} \}}"""
"""A reference with nothing but a name, and filters of it: other words in it can be a value, as in ``{{ x or 'y' }}``."""

_REFERENCE = re.compile(
    rf"""{REFERENCE_BY_NAME}
      | < [^<>\s]{{1,100}} > | %\( \w{{1,100}} \)s""",
    re.VERBOSE,
)
"""A reference in a value, without the operator of a shell."""

_PART_OF_A_REFERENCE = re.compile(
    rf"(?P<operator>(?P<begins>{_VALUED})(?P<sign>[-=+?]))|(?P<brace>[{{}}])"
)
"""The start of a reference that has a value itself, ``${NAME:-`` or what else shells and Compose have, or a brace."""

_MOST_WORDS = 8
_WORDS_AT_START = 2
_WORD_OF_VALUE = re.compile(r"""[^\s"'`]{16,4096}""")
_NO_VALUE = re.compile(
    r"""[A-Za-z][\w+.-]{0,30}:// | (?:sha[0-9]{0,3}|md5|arn|urn): | \$?\$[A-Za-z_]\w*(?:[.:]\w+)*\Z
      | \$\( | %\w+%\Z | [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9:]+)?\Z | [{\[]["'{\[]""",
    re.VERBOSE,
)
"""A text that is no value of its own: an address, a digest, a reference, a time, a document."""

BRACES = r"\{(?:[^{}\n]|\{[^{}\n]{0,100}+\}){0,100}+\}"
"""A reference in braces, such as ``${USER}`` without its ``$``, also with another one as its default."""

USER = rf"""(?:{BRACES}|<[^<>\s]{{1,100}}>|[^\s/:@"'`<>{{}}*]){{0,100}}+"""
"""The user of a URL, which can be a reference, or be missing, as for Redis."""

HOST = r"(?=[\w\[$<{%/])"
"""The start of the host of a URL, or of a reference to it; a URL with a socket has none."""

_USER_ALONE = re.compile(
    rf"""(?P<value>[A-Za-z0-9+_.~%!-][A-Za-z0-9+_.~%!$-]{{15,199}})
        (?::(?:{BRACES}|[^\s/@"'`<>{{}}]){{0,100}}+)?@{HOST}""",
    re.VERBOSE,
)
"""A token in place of the user, as hosts of git take it; a password after it has no meaning."""

_USER_AND_PASSWORD = re.compile(
    rf"""(?P<user>{USER}(?:@[^\s/:@"'`<>{{}}*]{{1,100}})?): (?:(?:{_VALUED}[-=+]){{1,9}}(?=[^{{}}]{{1,200}}\}}{{1,9}}@))?
        (?P<value>
          (?!\d{{1,5}}[?\#])
          (?!(?:(?:\$?\$[A-Za-z_]\w*|\$\([\w.-]{{1,100}}\)|%\(\w{{1,100}}\)s|%[A-Za-z_]\w{{0,100}}%)[.-]?)++@)
          [^\s/@"'`<>{{}}\\]{{6,200}})\}}{{0,9}}@{HOST}""",
    re.VERBOSE,
)
"""A password can have a ``$``, or be the default of a reference; variables alone are references.

The user can be an address of mail.  What ``?`` follows is a port.
"""

_BESIDE_A_REFERENCE = r"""[^\s/@"'`<>{}]{0,60}"""
_PASSWORD_WITH_REFERENCES = re.compile(
    rf"""{USER}(?:@[^\s/:@"'`<>{{}}*]{{1,100}})?:
        (?P<password>{_BESIDE_A_REFERENCE}(?:(?:[$#%]\$?)?(?:{BRACES})|<%[^%\n]{{1,200}}+%>){_BESIDE_A_REFERENCE})@{HOST}""",
    re.VERBOSE,
)
"""A password that is a reference of any template language, or that has one."""

_DEFAULT_PASSWORD = re.compile(
    r"""(?P<quote>["'`])(?P<text>[^\s{}"'`<]{6,200}+)(?P=quote)|:?[-=+:](?P<value>[^\s{}"'`<]{6,200}+)\}"""
)
"""A literal in a reference in place of a password: in quotes, or after an operator other than that of a message."""

_NAME_IN_QUOTES = re.compile(r"[A-Z_][A-Z0-9_]*|[\w.-]*/[\w./-]*")
"""The name of a variable, or a path, as ``env['DB_PASS']`` and ``lookup('file', ...)`` have it."""

_ADDRESS_PASSWORDS = {
    re.compile("jdbc:oracle:"): re.compile(
        r"""jdbc:oracle:\w{2,5}:[^\s/@"'`]{1,100}/["']?(?P<value>[^\s/@"'`<>{}$]{6,200})["']?@"""
    ),
    re.compile(r"@\w{0,5}\("): re.compile(
        r"""(?<![\w./-])[\w.-]{1,100}:(?P<value>[^\s@()"'`<>{}$]{6,200})@(?:tcp6?|unix|udp)?\([\w.:/\[\]-]+\)/"""
    ),
    re.compile(r"(?:[Pp]ass(?:word|wd)|PASSWORD|[Pp]wd|PWD)="): re.compile(
        r"""://[^\s"'`<>]{1,300}?[?&;](?i:password|passwd|pwd)=(?P<value>[^\s&;#"'`<>{}$]{6,200})(?=[\s&;#"'`]|\Z)"""
    ),
}
"""Passwords of addresses that are not before the host: of Oracle's driver, of Go's for MySQL, and parameters.

Before each pattern is what it needs, because a search for it takes a tenth of the time.
"""

_CONNECTION_PASSWORDS = (
    re.compile(
        r"""\w+ \s{0,3} = \s{0,3} (?P<value> (?!\$[A-Za-z_]\w*(?:[;\s"'`]|\Z)) [^;\s"'`<>{}*\\]{6,200} )
            (?= \s{0,3} (?:;|["'`]|\Z|\n) )""",
        re.VERBOSE,
    ),
    re.compile(r"\w+\s{0,3}=\s{0,3}\{(?P<value>[^{}\n]{6,200})\}"),
)
"""A password in a connection string, also in the braces that ODBC and SQL Server have in place of quotes."""

_BEFORE_A_KEY = ";\"'`="
_NAME_IN_BRACES = re.compile(r"[A-Za-z_][A-Za-z_.]*[0-9]?")
"""A placeholder such as ``{db_password}``."""

_PLACEHOLDER = (
    r"(?i)example|your|placeholder|change.?me|redacted|dummy|sample|insert|replace|fake|secret.?here"
    r"|xxxx|0000000|1234567|abcdefg|\*\*\*|(.)\1{5}"
)
_PLAIN_PASSWORDS = r"pass(?:w(?:or)?d)?|secret|token|user(?:name)?|admin|root|postgres"
_RANDOM_BITS = 3.5
"""Entropy in bits per character above which a value is not a word; the bound of gitleaks."""

_KNOWN_BITS = 2.5
"""The same for tokens of known formats: only placeholders that people typed have less."""

_RANDOM_WORD = re.compile(
    r"(?<![A-Za-z0-9+/_.~-])(?<!sha256:)[A-Za-z0-9+/_.~-]{16,200}+(?![A-Za-z0-9+/_.~-])"
)
_RANDOM_TEXT = re.compile(r"""(?<![^\s"'`])[!#-&(-_a-~]{16,4096}+(?![^\s"'`])""")
"""The same with all signs, between spaces or quotes."""

_WORDS = re.compile(r"(?i)[A-Za-z]*[0-9]{0,4}|[0-9]+|v?[0-9]+[a-z]?")
_LONG_HEX = re.compile(r"(?i)[0-9a-f]{32,}")
_LOWER = {ord(letter): letter.lower() for letter in string.ascii_uppercase}
_SWITCH = re.compile(r"(?<=[A-Za-z])[0-9]|(?<=[0-9])[A-Za-z]")


def credentials(text: str) -> list[Credential]:
    r"""Return the credentials of a text in order, each once; at most about ``2 * MAX_FOUND``.

    A server decodes ``ghp%5F...`` before it reads the token, and a parser ``\u0022ghp_...``.  So the decoded text is
    searched too, and what it has is returned as it is written in the text.
    """
    decoded = _Decoded(text)
    found = _known_tokens(text, decoded)
    guesses = list(islice(_guesses(text), MAX_FOUND))
    if decoded.has_escapes:
        guesses += map(decoded.as_written, islice(_guesses(decoded.text), MAX_FOUND - len(guesses)))
    for guess in sorted(
        guesses, key=lambda one: -len(one.value)
    ):  # an escape may end one too early
        start, end = guess.place, guess.place + len(guess.value)
        if not any(start < one.place + len(one.value) and one.place < end for one in found):
            found.append(guess)
    return sorted(found, key=lambda one: one.place)


def known_tokens(text: str) -> list[Credential]:
    """Return the credentials of a text that have a known format, in order; at most ``MAX_FOUND``.

    This takes a fifth of the time of :func:`credentials`.
    """
    return sorted(_known_tokens(text, _Decoded(text)), key=lambda token: token.place)


def _known_tokens(text: str, decoded: _Decoded) -> list[Credential]:
    tokens = list(islice(_of_known_shape(text), MAX_FOUND))
    if decoded.has_escapes:
        known = map(decoded.as_written, _of_known_shape(decoded.text))
        more = (one for one in known if not any(_contains(other, one) for other in tokens))
        tokens += list(islice(more, MAX_FOUND - len(tokens)))
    return tokens


def _contains(outer: Credential, inner: Credential) -> bool:
    ends = outer.place + len(outer.value)
    return outer.place <= inner.place and inner.place + len(inner.value) <= ends


def _guesses(text: str) -> Iterator[Credential]:
    lower = text.lower() if text.isascii() else text.translate(_LOWER)
    yield from _assigned(text, lower)
    yield from _in_addresses(text)
    yield from _in_connection_strings(text, lower)


def masked(text: str, values: Iterable[str] | None = None) -> str:
    """Return ``text`` with its credentials shortened to their first characters, also truncated ones.

    ``values`` are the credentials to mask if ``text`` is a part of another text; otherwise its own.
    """
    for value in sorted(
        {one.value for one in credentials(text)} if values is None else set(values),
        key=lambda value: (-len(value), value),
    ):
        begins = value[:_RECOGNIZED]
        at = text.find(begins)
        while at >= 0:
            end = at + len(begins)
            while end - at < len(value) and text[end : end + 1] == value[end - at]:
                end += 1
            text = f"{text[: at + SHOWN]}...{text[end:].removeprefix('...')}"
            at = text.find(begins, at + SHOWN)
    return text


def blotted(text: str) -> str:
    """Return ``text`` with ``*`` in place of the credentials after their first characters; same length."""
    for value in sorted({one.value for one in credentials(text)}, key=len, reverse=True):
        blot = value[:SHOWN] + _INK.sub("*", value[SHOWN:])
        text = text.replace(value, blot)
    return text


def _of_known_shape(text: str) -> Iterator[Credential]:
    # Every format is long and has no space, so that short words need not be searched.
    long = "\n".join([word for word in text.split() if len(word) >= _SHORTEST])
    for begins, kind, pattern in _SHAPES if _BEGINNINGS.search(long) else ():
        if any(begin in text for begin in begins):
            for found in re.finditer(pattern, text):
                if _bits(found[0]) >= _KNOWN_BITS and not re.search(_PLACEHOLDER, found[0]):
                    yield Credential(found.start(), kind, found[0], certain=True)
    for found in _BASIC.finditer(text) if "asic" in text or "ASIC" in text else ():
        if _is_login(found["value"]):
            kind = "a user and a password of HTTP Basic"
            yield Credential(found.start("value"), kind, found["value"], certain=True)
    if "PRIVATE KEY" in text:
        for found in re.finditer(_PRIVATE_KEY, text):
            if not re.search(_PLACEHOLDER, found["value"]):
                yield Credential(found.start(), "a private key", found[0], certain=True)


def _is_login(encoded: str) -> bool:
    """Return whether a text is a user and a password in Base64, and no example of documents."""
    try:
        login = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
    except ValueError:
        return False
    user, has_password, password = login.partition(":")
    is_text = bool(has_password and password) and login.isprintable()
    return is_text and _is_password(password) and password.lower() not in {user, "open sesame"}


class _Decoded:
    """A text without escapes, and the places of its characters in the text as it is written."""

    def __init__(self, written: str) -> None:
        self._written = written
        self._ends: list[tuple[int, int]] = []
        shorter = 0

        def decode(escape: re.Match[str]) -> str:
            nonlocal shorter
            character = _character(escape)
            shorter += len(escape[0]) - len(character)
            self._ends.append((escape.end() - shorter, escape.end()))
            return character

        self.text = _ESCAPE.sub(decode, written)

    @property
    def has_escapes(self) -> bool:
        return bool(self._ends)

    def as_written(self, found: Credential) -> Credential:
        """Return a credential of the decoded text at its place, and with its value, in the written text."""
        start = self._place(found.place)
        end = self._place(found.place + len(found.value))
        return found._replace(place=start, value=self._written[start:end])

    def _place(self, at: int) -> int:
        before = bisect_right(self._ends, (at, sys.maxsize)) - 1
        if before < 0:
            return at
        decoded, written = self._ends[before]
        return written + at - decoded


def _character(escape: re.Match[str]) -> str:
    if escape["continued"]:
        return ""
    digits = escape["url"] or escape["u4"] or escape["x2"] or escape["u8"] or escape["braces"]
    number = int(digits, 16) if digits else int(escape["octal"] or "0", 8)
    return escape["sign"] or (
        chr(number) if number <= sys.maxunicode and not escape["letter"] else "\n"
    )


def _assigned(text: str, lower: str) -> Iterator[Credential]:
    """Yield the random values after names of secrets; ``lower`` is the text in lower case."""
    has_references = any(mark in text for mark in _REFERENCE_MARKS)
    for word in _KEY_WORDS:
        for at in _places(lower, word):
            ends = at + len(word)
            begins = _KEY_BEGINS.search(text, max(0, at - 40), at)
            before = begins[0] if begins else ""
            patterns = (*_VALUES, *_VALUES_OF_A_FLAG) if before.startswith("-") else _VALUES
            default = _default_value(text, ends, len(before)) if has_references else None
            value = default or _random_value(patterns, text, ends)
            if value is not None and (word != "key" or _opens_a_lock(text, before, at)):
                kind = _kind(text[at - len(before) : ends])
                yield Credential(value.start("value"), kind, value["value"], certain=False)


def _default_value(text: str, at: int, length: int) -> re.Match[str] | None:
    """Return the value in the reference that has, or follows, the name of a ``length`` that ends at a place.

    Shells, Compose, Jinja, Liquid, Go and others each have spellings of a default, such as ``${NAME:-value}``,
    ``{{ name | default('value') }}`` and ``{{ default "value" .name }}``, so every random literal in it counts.
    """
    begins = text.rfind("{", max(0, at - length - _LONGEST_REFERENCE), at)
    if begins < 0 or text.find("}", begins, at) >= 0:
        follows = _REFERENCE_AFTER_A_SIGN.match(text, at)
        if follows is None:
            return None
        begins = follows.end() - 1
    elif not text.endswith(("$", "{", "#", "%"), 0, begins) and not text.startswith("{%", begins):
        return None
    ends = rest.end() if (rest := _REST_OF_A_REFERENCE.match(text, begins + 1)) else begins
    # What follows the name first: before it, a colon is that of `env:NAME`.
    for start in {max(at, begins): None, begins: None}:
        for literal in _VALUE_IN_A_REFERENCE.finditer(text, start, ends):
            if _is_value(literal["value"]):
                return literal
    return None


def _opens_a_lock(text: str, before: str, at: int) -> bool:
    """Return whether the name that ends with ``key`` at a place is not that of a key of a table.

    Flags, variables and parameters of URLs have values for a program, and a random one is no key of a table.
    """
    words = plain_name(text[max(0, at - _WORDS_BEFORE) : at])
    is_parameter = text[max(0, at - len(before) - 1) : at - len(before)] in {"?", "&"}
    is_variable = re.fullmatch(r"[A-Z][A-Z0-9_]*_", before) is not None and text[at] == "K"
    is_given = before.startswith("-") or is_parameter or is_variable
    return is_given or re.search(_KEY_OF_A_LOCK, words) is not None


def _random_value(patterns: Iterable[re.Pattern[str]], text: str, at: int) -> re.Match[str] | None:
    """Return the first match of the patterns at a place of a text whose value looks generated."""
    matches = (pattern.match(text, at) for pattern in patterns)
    return next((found for found in matches if found and _is_value(found["value"])), None)


def _kind(name: str) -> str:
    return f"the value of {name!r} looks like a credential"


def _in_addresses(text: str) -> Iterator[Credential]:
    for at in _places(text, "://") if "@" in text else ():
        user = _USER_ALONE.match(text, at + 3)
        if user is not None and _is_random(user["value"]):
            yield Credential(at + 3, "a URL with a token as its user", user["value"], certain=False)
            continue
        login = _USER_AND_PASSWORD.match(text, at + 3)
        password = (
            (login["value"], login.start("value")) if login else _default_password(text, at + 3)
        )
        is_user = login is not None and login["value"] == login["user"]
        if password is not None and not is_user and _is_password(password[0]):
            kind = "a URL with a password in it"
            yield Credential(password[1], kind, password[0], certain=False)
    for needed, pattern in _ADDRESS_PASSWORDS.items():
        for login in pattern.finditer(text) if needed.search(text) else ():
            if _is_password(login["value"]):
                kind = "an address of a database with a password in it"
                yield Credential(login.start("value"), kind, login["value"], certain=False)


def _default_password(text: str, at: int) -> tuple[str, int] | None:
    """Return the value, and its place, that a reference has in place of the password of the URL at a place."""
    login = _PASSWORD_WITH_REFERENCES.match(text, at)
    if login is None or re.fullmatch(REFERENCE_BY_NAME, login["password"], re.VERBOSE):
        return None
    for literal in _DEFAULT_PASSWORD.finditer(text, *login.span("password")):
        group = "value" if literal["value"] else "text"
        if group == "value" or not _NAME_IN_QUOTES.fullmatch(literal["text"]):
            return literal[group], literal.start(group)
    return None


def _is_password(value: str) -> bool:
    """Return whether a text in place of a password is none that documents have as an example."""
    is_plain = re.fullmatch(_PLAIN_PASSWORDS, value.lower()) is not None
    return not is_plain and not re.search(_PLACEHOLDER, value)


def _in_connection_strings(text: str, lower: str) -> Iterator[Credential]:
    """Yield the passwords of texts such as ``Server=db;User Id=app;Password=...``, as ADO.NET and ODBC have them.

    A line without a semicolon is none.
    """
    for at in (*_places(lower, "password"), *_places(lower, "pwd")) if ";" in text else ():
        if at == 0 or not (text[at - 1] in _BEFORE_A_KEY or text[at - 1].isspace()):
            continue
        for pattern in _CONNECTION_PASSWORDS:
            password = pattern.match(text, at)
            if password is None or not _is_password(password["value"]):
                continue
            begins, ends = text.rfind("\n", 0, at) + 1, text.find("\n", password.end())
            is_placeholder = text[password.start("value") - 1] == "{" and (
                _NAME_IN_BRACES.fullmatch(password["value"]) and not is_token(password["value"])
            )
            if text.find(";", begins, ends if ends >= 0 else len(text)) >= 0 and not is_placeholder:
                kind = "a connection string with a password in it"
                yield Credential(password.start("value"), kind, password["value"], certain=False)


def _places(text: str, word: str) -> Iterator[int]:
    """Yield the positions of a word; this is much faster than one pattern of all words."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def value_after_name(text: str, name: str) -> Credential | None:
    """Return the random value of a text whose ``name``, which is elsewhere, says that it is a credential.

    The text has nothing else than the value, its scheme and its user, so the value can have all signs.
    """
    blank = _REFERENCE.sub(_blank, _without_operators(text))
    # Of a sentence, the name means only a value at its start, as after a scheme.
    words = [word.end() for word in islice(re.finditer(r"\S+", blank), _MOST_WORDS + 1)]
    ends = words[_WORDS_AT_START - 1] if len(words) > _MOST_WORDS else len(blank)
    for word in _WORD_OF_VALUE.finditer(blank, 0, ends):
        if _NO_VALUE.match(word[0]):
            continue
        value = word[0].rstrip(",;")
        user = re.match(rf"{_USER_OF_VALUE}|{_FLAG_OF_VALUE}", value)
        starts = (user.end(), 0) if user else (0,)
        for start in starts:
            if _is_value(value[start:]):
                return Credential(word.start() + start, _kind(name), value[start:], certain=False)
    return None


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def references_with_a_value(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield the starts of references such as ``${NAME:-value}``, and the places of their ``}``, inner ones first.

    Such a value can have a reference with another one, at any depth.
    """
    opened: list[re.Match[str]] = []
    for part in _PART_OF_A_REFERENCE.finditer(text) if "${" in text else ():
        if part[0] != "}":
            opened.append(part)
        elif opened and (start := opened.pop())["operator"]:
            yield start, part.start()


def _without_operators(text: str) -> str:
    """Return a text with spaces in place of ``${NAME:-`` and its ``}``, so that only the value in it is left."""
    blanks = [
        span
        for start, ends in references_with_a_value(text)
        for span in (start.span(), (ends, ends + 1))
    ]
    pieces, done = [], 0
    for start, end in sorted(blanks):
        pieces += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*pieces, text[done:]])


def has_random_value(text: str) -> bool:
    """Return whether a text has a word that looks generated, apart from digests."""
    text = _Decoded(text).text
    return any(
        _is_random(found[0])
        for pattern in (_RANDOM_WORD, _RANDOM_TEXT)
        for found in pattern.finditer(text)
    )


def is_token(value: str) -> bool:
    """Return whether a value alone, as the user of a URL, looks like a token."""
    return len(value) >= _SHORTEST_VALUE and _is_random(value)


def _is_value(value: str) -> bool:
    """Return whether a text after a name is long and random enough for a credential."""
    return len(value) >= _SHORTEST_VALUE and not _NO_VALUE.match(value) and _is_random(value)


def _is_random(value: str) -> bool:
    """Return whether a value looks generated, and not like words, versions or paths."""
    is_hex = _LONG_HEX.fullmatch(value) is not None
    # First, because most words have no digit; "utf8" and "sha256sum" have two switches.
    if not is_hex and len(_SWITCH.findall(value)) < 3:  # noqa: PLR2004
        return False
    if re.search(_PLACEHOLDER, value):
        return False
    if is_hex:  # 16 letters have at most 4 bits, and a random value may have 3
        return _bits(value) >= _KNOWN_BITS
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", value) if part]
    return _bits(value) >= _RANDOM_BITS and not all(_WORDS.fullmatch(part) for part in parts)


def _bits(value: str) -> float:
    """Return the Shannon entropy of a text in bits per character."""
    length = len(value)
    return -sum(n / length * math.log2(n / length) for n in Counter(value).values())
