"""What Flask compiles of templates and routes, compiled once in a process: hundreds of apps are made of the same ones."""

from types import MethodType
from typing import Any

from flask import Flask
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from werkzeug.routing import Rule


class Templates(BytecodeCache):
    """What Jinja made of the templates, by their texts."""

    def __init__(self) -> None:
        self._compiled: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._compiled:
            bucket.bytecode_from_string(self._compiled[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._compiled[bucket.key] = bucket.bytecode_to_string()


class Route(Rule):
    """A route that is compiled once: that is most of the time to make an app."""

    _compiled: dict[tuple[object, ...], dict[str, Any]] = {}  # noqa: RUF012 - one for all routes

    def compile(self) -> None:
        assert self.map is not None
        key = (
            *(self.rule, self.merge_slashes, self.subdomain, self.host, repr(self.defaults)),
            *(self.map.host_matching, *sorted(self.map.converters)),
        )
        if key not in self._compiled:
            super().compile()
            self._compiled[key] = {name: getattr(self, name) for name in _MADE}
            return
        for name, value in self._compiled[key].items():
            method = isinstance(value, MethodType)
            setattr(self, name, MethodType(value.__func__, self) if method else value)


_MADE = ("_parts", "_trace", "_converters", "arguments", "_build", "_build_unknown")
"""What Werkzeug's ``Rule.compile`` sets."""


def share() -> None:
    """Have all apps that this process makes share them."""
    Flask.jinja_options = {"bytecode_cache": Templates()}
    Flask.url_rule_class = Route
