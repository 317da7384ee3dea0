"""JSON Schemas of the types of Python's standard library and of pydantic, by their dotted names.

They are those that pydantic 2 generates (https://docs.pydantic.dev/latest/concepts/types/ and, for the constrained
types, the source of ``pydantic/types.py`` and ``pydantic/networks.py``).  Types whose values no schema can describe,
such as a file that exists, have a schema that accepts more; ``NARROWER`` names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

SPELLINGS: Final = {
    "typing.Dict": "builtins.dict",
    "typing.FrozenSet": "builtins.frozenset",
    "typing.List": "builtins.list",
    "typing.Set": "builtins.set",
    "typing.AbstractSet": "builtins.set",
    "typing.MutableSet": "builtins.set",
    "typing.Tuple": "builtins.tuple",
    "typing.Text": "builtins.str",
    **dict.fromkeys(
        ("typing.Sequence", "typing.MutableSequence", "typing.Iterable", "typing.Collection"),
        "builtins.list",
    ),
    **dict.fromkeys(("typing.Deque", "collections.deque"), "builtins.list"),
    **dict.fromkeys(
        (
            *("typing.Mapping", "typing.MutableMapping", "typing.DefaultDict"),
            *("typing.OrderedDict", "collections.OrderedDict", "collections.defaultdict"),
        ),
        "builtins.dict",
    ),
    "typing.Counter": "collections.Counter",
}
"""Names for which pydantic generates the schema of another type."""

ANY: Final = frozenset({"typing.Any", "builtins.object", "typing.Hashable"})

DECIMAL: Final = {"anyOf": [{"type": "number"}, {"type": "string", "format": "decimal"}]}
"""With a format, which pydantic does not write: the text is parsed, so rules must not compare it as it is."""


def _text(format_: str, **more: Any) -> JsonObject:
    return {"type": "string", "format": format_, **more}


_URL = _text("uri", minLength=1)

BYTE_SIZE_TEXT: Final = r"^[\s\x85]*[+-]?(\d*\.?\d+)\s*(\w+)?"
"""The texts of pydantic's pattern, and those that it reads as integers of 0 or more, such as +5 and -0."""

SIMPLE: Final[dict[str, JsonObject]] = {
    "builtins.str": {"type": "string"},
    "builtins.int": {"type": "integer"},
    "builtins.float": {"type": "number"},
    "builtins.bool": {"type": "boolean"},
    "builtins.bytes": _text("binary"),
    "builtins.complex": _text("complex"),
    "builtins.list": {"type": "array", "items": {}},
    "builtins.tuple": {"type": "array", "items": {}},
    "builtins.set": {"type": "array", "items": {}, "uniqueItems": True},
    "builtins.frozenset": {"type": "array", "items": {}, "uniqueItems": True},
    "builtins.dict": {"type": "object", "additionalProperties": True},
    "collections.Counter": {"type": "object", "additionalProperties": {"type": "integer"}},
    "datetime.date": _text("date"),
    "datetime.datetime": _text("date-time"),
    "datetime.time": _text("time"),
    "datetime.timedelta": _text("duration"),
    "decimal.Decimal": DECIMAL,
    "pathlib.Path": _text("path"),
    "pathlib.PurePath": _text("path"),
    "pathlib.PurePosixPath": _text("path"),
    "uuid.UUID": _text("uuid"),
    "ipaddress.IPv4Address": _text("ipv4"),
    "ipaddress.IPv6Address": _text("ipv6"),
    "ipaddress.IPv4Network": _text("ipv4network"),
    "ipaddress.IPv6Network": _text("ipv6network"),
    "ipaddress.IPv4Interface": _text("ipv4interface"),
    "ipaddress.IPv6Interface": _text("ipv6interface"),
    "re.Pattern": _text("regex"),
    "typing.Pattern": _text("regex"),
    "pydantic.AnyUrl": _URL,
    "pydantic.AnyHttpUrl": _URL,
    "pydantic.AnyWebsocketUrl": _URL,
    "pydantic.FileUrl": _URL,
    "pydantic.FtpUrl": _URL,
    "pydantic.HttpUrl": _URL | {"maxLength": 2083},
    "pydantic.WebsocketUrl": _URL | {"maxLength": 2083},
    "pydantic.IPvAnyAddress": _text("ipvanyaddress"),
    "pydantic.IPvAnyInterface": _text("ipvanyinterface"),
    "pydantic.IPvAnyNetwork": _text("ipvanynetwork"),
    "pydantic.SecretStr": _text("password", writeOnly=True),
    "pydantic.SecretBytes": _text("password", writeOnly=True),
    "pydantic.Base64Str": _text("base64"),
    "pydantic.Base64Bytes": _text("base64"),
    "pydantic.Base64UrlStr": _text("base64url"),
    "pydantic.Base64UrlBytes": _text("base64url"),
    "pydantic.FilePath": _text("file-path"),
    "pydantic.DirectoryPath": _text("directory-path"),
    "pydantic.NewPath": _text("path"),
    "pydantic.PastDate": _text("date"),
    "pydantic.FutureDate": _text("date"),
    "pydantic.AwareDatetime": _text("date-time"),
    "pydantic.NaiveDatetime": _text("date-time"),
    "pydantic.PastDatetime": _text("date-time"),
    "pydantic.FutureDatetime": _text("date-time"),
    "pydantic.UUID1": _text("uuid1"),
    "pydantic.UUID3": _text("uuid3"),
    "pydantic.UUID4": _text("uuid4"),
    "pydantic.UUID5": _text("uuid5"),
    "pydantic.UUID6": _text("uuid6"),
    "pydantic.UUID7": _text("uuid7"),
    "pydantic.UUID8": _text("uuid8"),
    "pydantic.ByteSize": {
        "anyOf": [
            _text("byte-size", pattern=BYTE_SIZE_TEXT),
            {"type": "integer", "minimum": 0},
        ]
    },
    "pydantic.StrictStr": {"type": "string"},
    "pydantic.StrictInt": {"type": "integer"},
    "pydantic.StrictFloat": {"type": "number"},
    "pydantic.StrictBool": {"type": "boolean"},
    "pydantic.StrictBytes": _text("binary"),
    "pydantic.FiniteFloat": {"type": "number"},
    "pydantic.PositiveInt": {"type": "integer", "exclusiveMinimum": 0},
    "pydantic.NegativeInt": {"type": "integer", "exclusiveMaximum": 0},
    "pydantic.NonNegativeInt": {"type": "integer", "minimum": 0},
    "pydantic.NonPositiveInt": {"type": "integer", "maximum": 0},
    "pydantic.PositiveFloat": {"type": "number", "exclusiveMinimum": 0},
    "pydantic.NegativeFloat": {"type": "number", "exclusiveMaximum": 0},
    "pydantic.NonNegativeFloat": {"type": "number", "minimum": 0},
    "pydantic.NonPositiveFloat": {"type": "number", "maximum": 0},
}

NARROWER: Final = frozenset(
    {
        "builtins.complex",
        "decimal.Decimal",
        "pydantic.StrictInt",
        *(f"pydantic.{name}" for name in ("FilePath", "DirectoryPath", "NewPath")),
        *(f"pydantic.{name}" for name in ("PastDate", "FutureDate", "AwareDatetime")),
        *(f"pydantic.{name}" for name in ("NaiveDatetime", "PastDatetime", "FutureDatetime")),
        *(f"pydantic.{name}" for name in ("AnyHttpUrl", "AnyWebsocketUrl", "FileUrl", "FtpUrl")),
        *(f"pydantic.{name}" for name in ("HttpUrl", "WebsocketUrl", "ByteSize")),
        *(f"pydantic.Base64{name}" for name in ("Str", "Bytes", "UrlStr", "UrlBytes")),
    }
)
"""Types that refuse values which their schema accepts, such as a text that is no number."""

WRITTEN: Final[dict[str, JsonObject]] = {"decimal.Decimal": {"type": "string"}}
"""Types with another schema in results."""

NOT_WRITTEN: Final = frozenset({"builtins.bytes", "pydantic.StrictBytes"})
"""Types that results hold in a form of their own."""

CONSTRAINED_BY_CALL: Final = {
    "pydantic.conint": "builtins.int",
    "pydantic.confloat": "builtins.float",
    "pydantic.constr": "builtins.str",
    "pydantic.conbytes": "builtins.bytes",
    "pydantic.condecimal": "decimal.Decimal",
    "pydantic.condate": "datetime.date",
    "pydantic.conlist": "builtins.list",
    "pydantic.conset": "builtins.set",
    "pydantic.confrozenset": "builtins.frozenset",
}
"""Functions that return a constrained type; those of collections have the type of the items as first argument."""

CLASS_MAKERS: Final = frozenset({"typing.NamedTuple", "typing.TypedDict", "collections.namedtuple"})
"""Functions that make a class of the fields in their arguments."""

INTEGER_TEXT: Final = r"^[\s\x85]*[+-]?[0-9]+(_[0-9]+)*(\.0+)?[\s\x85]*$"
"""Texts that pydantic reads as an integer, as which it reads the keys of ``dict[int, str]``."""

NEEDED_PACKAGES: Final = dict.fromkeys(
    ("pydantic.EmailStr", "pydantic.NameEmail"), "email_validator"
)
"""Packages that pydantic imports for a type, and does not require itself."""
