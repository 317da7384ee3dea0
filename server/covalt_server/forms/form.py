"""Forms of JSON Schemas: the submitted JSON value, and the form to show again.

A page needs two functions, and the macro ``inputs`` of ``templates/_form.html``::

    @pages.get("/tools/<tool_id>")
    def show_tool(tool_id):
        form = form_values.opened(tool.input_schema, examples=tool.examples)
        return render_template("tool.html", form=form)

    @pages.post("/tools/<tool_id>")
    def call_tool(tool_id):
        form = form_values.submitted(tool.input_schema, request.form, examples=tool.examples)
        if form.wants == "check":
            return jsonify(form.answer())
        if form.wants == "redraw":
            return render_template("tool.html", form=form)
        call = ...  # form.value is valid
        return redirect(...)

    <form id="call" class="form" method="post" data-check="{{ the same URL }}">
      {{ inputs(form) }}
      <button class="primary">Run</button>
    </form>

The buttons of the form send ``_add``, ``_remove``, ``_example`` and ``_use``; ``form.js`` sends
``_check``.  If ``_side`` is ``json``, the value is the text of ``_json``; otherwise it is in the fields.  Only
the schema determines the type of a field's value; :mod:`.fields` describes the names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from covalt_git.json_values import canonical_json, json_schema
from covalt_git.text.display import shorten
from covalt_server.forms.fields import ROOT, Field, FieldOption, draw, marked
from covalt_server.forms.parsing import FormReader, lines, not_json, read_json, settled
from covalt_server.forms.problems import FieldProblem, by_path, refusals, with_place, wrong
from covalt_server.forms.shapes import (
    COMPOSITE,
    MISSING,
    InputKind,
    as_json,
    shape_of_arguments,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from werkzeug.datastructures import MultiDict

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool_properties import Example

JSON_BOX = "_json"
"""The text box with the complete value as JSON, on the JSON side of the form."""

_BUTTONS = frozenset({"_add", "_remove", "_example", "_use", "_compare", "_chat"})
"""A form sent with one of these buttons does not call the tool."""

Wants = Literal["run", "redraw", "check"]
Side = Literal["form", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A new or submitted form.

    ``value`` is the JSON value; None if the input is not a JSON value.  It is valid if ``wants`` is
    ``"run"``; a form with problems has to be shown again.
    """

    value: Any
    fields: Field
    problems: tuple[FieldProblem, ...] = ()
    wants: Wants = "redraw"
    side: Side = "form"
    text: str = ""
    examples: tuple[FieldOption, ...] = ()

    def refused(self, problems: Sequence[Problem]) -> Submitted:
        """Return the form to show again after the tool's own validation refused the arguments."""
        if self.side == "json":
            field_problems = tuple(
                FieldProblem(JSON_BOX, f"{problem.path}: {problem.message}") for problem in problems
            )
            return replace(self, problems=field_problems, wants="redraw")
        field_problems = refusals(self.fields, problems)
        fields = marked(
            self.fields, by_path(field_problems), _start_of(self.fields, field_problems[0].path)
        )
        return replace(self, problems=field_problems, fields=fields, wants="redraw")

    def answer(self) -> JsonObject:
        """Return the answer to ``form.js``, which checks the form while the user types."""
        return {
            "args": self.value,
            "problems": [
                {"path": problem.path, "message": problem.message} for problem in self.problems
            ],
        }


def opened(
    schema: JsonObject, value: Any = MISSING, *, examples: Sequence[Example] = ()
) -> Submitted:
    """Return the form of a schema, filled with ``value`` or the schema's defaults.

    Raises:
        BadSchemaError: if there is a value to check and the schema cannot be used.
    """
    fields = draw(schema, value)
    example_options = tuple(_example(at, example) for at, example in enumerate(examples))
    if value is MISSING:
        return Submitted(value=None, fields=fields, examples=example_options)
    problems = wrong(schema, value, fields)
    fields = marked(fields, by_path(problems))
    return Submitted(value=value, fields=fields, problems=problems, examples=example_options)


def submitted(
    schema: JsonObject, form: MultiDict[str, str], *, examples: Sequence[Example] = ()
) -> Submitted:
    """Return the value of a submitted form, and the next step of the handler: check, redraw or run.

    Raises:
        BadSchemaError: if the schema cannot be used.
    """
    example_options = tuple(_example(at, example) for at, example in enumerate(examples))
    if "_example" in form:
        chosen = form.get("_example", -1, type=int)
        if 0 <= chosen < len(examples):
            return opened(schema, examples[chosen].args, examples=examples)
    if form.get("_side") == "json":
        return replace(_of_json(schema, form), examples=example_options)
    return replace(_of_fields(schema, form), examples=example_options)


def defaults(schema: JsonObject) -> Any:
    """Return the value of a form that is not filled in yet."""
    return settled(start(shape_of_arguments(schema)))


# The two sides of a form


def _of_json(schema: JsonObject, form: MultiDict[str, str]) -> Submitted:
    """Read the JSON side."""
    text = lines(form.get(JSON_BOX, ""))
    value = None
    problems: tuple[FieldProblem, ...]
    try:
        value = read_json(text)
    except canonical_json.NotJsonError as error:
        fields = draw(schema)
        problems = (FieldProblem(JSON_BOX, not_json(error)),)
    else:
        if form.get("_use") == "form":
            return opened(schema, value)
        fields = draw(schema, value)
        problems = tuple(
            FieldProblem(JSON_BOX, with_place(place, message))
            for place, message in json_schema.value_problems(schema, value)
        )
    return Submitted(
        value=value,
        fields=fields,
        problems=problems,
        wants=_wanted_parts(form, problems),
        side="json",
        text=text,
    )


def _of_fields(schema: JsonObject, form: MultiDict[str, str]) -> Submitted:
    """Read the fields, after adding or removing a list item if that button was pressed."""
    reading = FormReader(form)
    draft = reading.value(shape_of_arguments(schema), ROOT, ROOT, required=True)
    value = settled(draft)
    fields = draw(schema, draft, reading.typed)
    mistyped = tuple(reading.problems)
    # Input that is not a value of its type has no JSON, so the user fixes it on this side.
    if form.get("_use") == "json" and not mistyped:
        text = as_json(value, indent=2)
        return Submitted(value=value, fields=fields, side="json", text=text)
    if _BUTTONS & set(form):
        # A user who is still filling in the form does not need to see every missing field.
        start = mistyped[0].path if "_use" in form and mistyped else reading.focus
        marked_fields = marked(fields, by_path(mistyped), _start_of(fields, start))
        return Submitted(value=None if mistyped else value, fields=marked_fields, problems=mistyped)
    problems = wrong(schema, value, fields, mistyped)
    messages = by_path(problems)
    first = next((field.name for field in fields.walk() if field.name in messages), "")
    return Submitted(
        value=None if mistyped else value,
        fields=marked(fields, messages, _start_of(fields, first)),
        problems=problems,
        wants=_wanted_parts(form, problems),
    )


def _wanted_parts(form: MultiDict[str, str], problems: Sequence[FieldProblem]) -> Wants:
    if "_check" in form:
        return "check"
    return "redraw" if problems or _BUTTONS & set(form) else "run"


def _start_of(fields: Field, name: str) -> str:
    """Return the name of the input to focus within a field; in a list, it is the button that adds an item."""
    field = next((field for field in fields.walk() if field.name == name), None)
    while field is not None and field.kind in COMPOSITE and field.children:
        if field.kind is InputKind.LIST:
            break
        field = field.children[0]
    return field.name if field else ""


def _example(at: int, example: Example) -> FieldOption:
    label = example.description or as_json(example.args)
    return FieldOption(str(at), shorten(label))
