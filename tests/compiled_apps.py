"""What Flask compiles of templates and routes, compiled once in a process: hundreds of apps are made of the same ones."""

from collections.abc import Callable

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
    """A route whose functions that write its URLs are compiled once: they are nine tenths of the time to make an app."""

    _compiled: dict[tuple[object, ...], Callable[..., tuple[str, str]]] = {}  # noqa: RUF012 - one for all routes

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:  # noqa: FBT001, FBT002 - Werkzeug calls it
        key = (self.rule, *self._trace, repr(self.defaults), append_unknown)
        if key not in self._compiled:
            self._compiled[key] = super()._compile_builder(append_unknown)
        return self._compiled[key]


def share() -> None:
    """Have all apps that this process makes share them."""
    Flask.jinja_options = {"bytecode_cache": Templates()}
    Flask.url_rule_class = Route
