"""Placement of an HTTP tool's arguments in its request: path, query, headers, cookies or body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from covalt_git.models.tool_properties import HttpBody
from covalt_git.templating.expressions import expressions
from covalt_git.templating.graphql_text import variables
from covalt_git.templating.references import Reference, references
from covalt_git.templating.url_templates import UrlTemplate

if TYPE_CHECKING:
    from covalt_git.models.tool_properties import HttpRequest

Place = Literal["path", "query", "header", "cookie", "body"]

FILE_PREFIX = "$workspace/"
"""Prefix of texts that name a file of the workspace."""

# The body of such a request has no defined meaning (RFC 9110, 9.3).
_IN_QUERY = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})


class Placement(NamedTuple):
    """The places of arguments.

    ``named`` are the places that the request declares, and ``needed`` the arguments that its URL
    requires.  ``others`` is the place of all other arguments.  If ``takes_all``, an expression ``$args``
    contains all arguments, and the others are not sent separately.
    """

    named: dict[str, Place]
    needed: tuple[str, ...]
    others: Literal["query", "body"]
    takes_all: bool

    def place_of(self, name: str) -> Place | None:
        """Return the place of an argument; None if it is not sent separately."""
        return self.named.get(name) or (None if self.takes_all else self.others)


def placement(http: HttpRequest) -> Placement:
    """Return the places of the arguments of a request.

    Raises:
        BadTemplateError: when the URL is not a valid template.
    """
    template = UrlTemplate.parse(http.url)
    in_path = {argument.name for argument in template.arguments} & set(template.needed)
    named: dict[str, Place] = {
        argument.name: "path" if argument.name in in_path else "query"
        for argument in template.arguments
    }
    takes_all = False
    for where, value in _templates(http):
        for expression in expressions(value):
            if expression.root == "args" and expression.path:
                named.setdefault(expression.path[0], where)
            takes_all |= expression.root == "args" and not expression.path
    renamed = {}
    in_query = graphql_variables(http)
    for name in in_query:
        named.setdefault(name, "body")
    for name, parameter in http.parameters.items():
        named[name] = parameter.location
        if parameter.name is not None:
            renamed[parameter.name] = name
    # The URL has the name in the request; callers pass the argument by the other one.
    for wire, name in renamed.items():
        if wire in in_path and wire not in http.parameters:
            named.pop(wire)
            named[name] = "path"
        elif wire in in_query and wire not in http.parameters:
            named.pop(wire)
    others = (http.method in _IN_QUERY) or isinstance(http.body, HttpBody)
    needed = tuple(renamed.get(name, name) for name in template.needed)
    return Placement(named, needed, "query" if others else "body", takes_all)


def graphql_variables(http: HttpRequest) -> dict[str, str]:
    """Return the types of the variables of a GraphQL request, with the argument that selects fields.

    ``!`` ends the type of a required variable.
    """
    graphql = http.body.graphql if isinstance(http.body, HttpBody) else None
    if graphql is None:
        return {}
    select = {graphql.select.argument: "String"} if graphql.select else {}
    return variables(graphql.query) | select


def secrets_of(http: HttpRequest) -> tuple[Reference, ...]:
    """Return the references of a request to values outside of the project, such as ``${NAME}``."""
    parts = [http.url, *(value for _, value in _templates(http))]
    return tuple(reference for _, reference in references(parts))


def _templates(http: HttpRequest) -> list[tuple[Place, Any]]:
    templates: list[tuple[Place, Any]] = [
        ("query", http.query),
        ("header", http.headers),
        ("cookie", http.cookies),
    ]
    if isinstance(http.body, HttpBody):
        # A GraphQL query is no template: its $variables have the names of arguments.
        kinds = http.body.model_dump(by_alias=True, exclude_none=True, exclude={"graphql"})
        templates.append(("body", kinds))
    return templates
