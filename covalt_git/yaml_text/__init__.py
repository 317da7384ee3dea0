"""Strict YAML text to plain JSON values and back, with the line and column of every key and value.

What a text means is decided here, by the core schema of YAML 1.2.  Whatever two readers could see
differently is refused and named: duplicate keys, tags, merge keys, several documents, numbers that
JSON cannot hold.  What the values should be is for the models to say.

Reading goes from ``loading`` (bytes to a text that may be parsed) over ``events`` (the parser, the
only module that imports ``yaml``) and ``reading`` (events to values) to ``document``.
"""

from covalt_git.yaml_text.core_schema import MAX_DIGITS
from covalt_git.yaml_text.document import MAX_DEPTH, Document, YamlProblems
from covalt_git.yaml_text.dump import comment, dump
from covalt_git.yaml_text.loading import MAX_BYTES, MAX_NODES, load, load_file, read_file

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_NODES",
    "Document",
    "YamlProblems",
    "comment",
    "dump",
    "load",
    "load_file",
    "read_file",
]
