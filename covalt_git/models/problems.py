"""The codes of everything that ``validate`` can find, each a stable name for one kind of problem.

A code never changes its meaning and is never used again.  The hundreds say where to look: 1 the YAML
text, 2 the values in it, 3 the files of a toolset, 4 the project as a whole.
"""

from __future__ import annotations

UNREADABLE = "CG101"
SYNTAX = "CG102"
DUPLICATE_KEY = "CG103"
TAG = "CG104"
MERGE_KEY = "CG105"
ALIAS = "CG106"
TOO_LARGE = "CG107"
NOT_JSON = "CG108"
BAD_KEY = "CG109"

UNKNOWN_KEY = "CG201"
MISSING_KEY = "CG202"
BAD_VALUE = "CG203"
BAD_ID = "CG204"
DUPLICATE_ID = "CG205"
LEGACY_KEY = "CG206"
BAD_SCHEMA = "CG207"
BAD_EXAMPLE = "CG208"
BAD_REQUEST = "CG209"
UNKNOWN_ARGUMENT = "CG210"
BAD_REFERENCE = "CG211"
CREDENTIAL = "CG212"
HIDDEN_CHARACTER = "CG213"
UNKNOWN_EXPRESSION = "CG214"
BAD_SIGNER = "CG215"

NO_MODULE = "CG301"
NO_FUNCTION = "CG302"
WRONG_PARAMETERS = "CG303"
NO_FILE = "CG304"
FORBIDDEN_FILE = "CG305"
PYTHON_SYNTAX = "CG306"
PAGE_EXTERNAL = "CG307"
PAGE_SIBLING = "CG308"
PAGE_LEAVES = "CG311"
SHADOWED_MODULE = "CG313"
MERGE_CONFLICT = "CG314"
FOREIGN_ENTRYPOINT = "CG315"
BAD_ICON = "CG316"

NAMESPACE_TAKEN = "CG401"
ORPHAN_STATE = "CG402"
FALSE_DIGEST = "CG403"

TITLES = {
    UNREADABLE: "a file cannot be read, or is not UTF-8 text",
    SYNTAX: "the text is not YAML",
    DUPLICATE_KEY: "a key stands twice in one mapping",
    TAG: "a YAML tag",
    MERGE_KEY: "a YAML merge key",
    ALIAS: "an alias to itself, or to nothing",
    TOO_LARGE: "too large, too deep, or growing too much through aliases",
    NOT_JSON: "a value that JSON cannot hold",
    BAD_KEY: "a key that is not a plain text",
    UNKNOWN_KEY: "a key that nothing reads",
    MISSING_KEY: "a required key is missing",
    BAD_VALUE: "a value of the wrong type or outside what is allowed",
    BAD_ID: "an id that is not allowed",
    DUPLICATE_ID: "two things with one id",
    LEGACY_KEY: "an old key that has a better one",
    BAD_SCHEMA: "an invalid JSON Schema, or one that refers outside itself",
    BAD_EXAMPLE: "an example that does not satisfy its schema",
    BAD_REQUEST: "an HTTP request that could not be sent as it is written",
    UNKNOWN_ARGUMENT: "a request with an argument that its schema does not declare",
    BAD_REFERENCE: "a reference to a value that is none, or that the toolset does not declare",
    CREDENTIAL: "a credential in plain text",
    HIDDEN_CHARACTER: "a character that nobody sees, or that shows a text in another order",
    UNKNOWN_EXPRESSION: "an expression that stands for nothing the tool takes or returns",
    BAD_SIGNER: "a line of `signers` that says nobody's key",
    NO_MODULE: "an entrypoint's module does not exist",
    NO_FUNCTION: "an entrypoint's function does not exist",
    WRONG_PARAMETERS: "a function that does not take what its schema declares",
    NO_FILE: "a file that is named but not there",
    FORBIDDEN_FILE: "a file that a toolset may not hold",
    PYTHON_SYNTAX: "Python that does not parse",
    PAGE_EXTERNAL: "a page with a part that would come from the network",
    PAGE_SIBLING: "a page with a part in another file",
    PAGE_LEAVES: "a page that would leave its frame, or hold another one",
    SHADOWED_MODULE: "a module with the name of one of Python's own",
    MERGE_CONFLICT: "a file with a merge conflict that nobody resolved",
    FOREIGN_ENTRYPOINT: "an entrypoint that is not the toolset's own function",
    BAD_ICON: "a file that cannot be an icon",
    NAMESPACE_TAKEN: "a namespace with two owners",
    ORPHAN_STATE: "a state file without its toolset",
    FALSE_DIGEST: "a lock whose digest is not that of the definition beside it",
}
