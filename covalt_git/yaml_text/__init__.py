"""Strict YAML reader and writer for JSON values, with the line and column of every key and value.

Scalars are resolved by the core schema of YAML 1.2.  Everything that YAML parsers read differently is an
error: duplicate keys, tags, merge keys, several documents, numbers that JSON cannot represent.

``loading`` checks bytes before parsing, ``events`` is the parser (the only module that imports
``yaml``), ``reader`` converts events to values, and ``document`` is the result.
"""

from covalt_git.yaml_text.core_schema import MAX_DIGITS
from covalt_git.yaml_text.document import MAX_DEPTH, Lines, YamlDocument, YamlProblems
from covalt_git.yaml_text.dump import comment, dump
from covalt_git.yaml_text.loading import MAX_BYTES, MAX_NODES, load, load_file, read_file

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_NODES",
    "Lines",
    "YamlDocument",
    "YamlProblems",
    "comment",
    "dump",
    "load",
    "load_file",
    "read_file",
]
