"""What was sent with a form: its JSON value, and the form to show again.

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
        call = ...  # form.value is right for the schema
        return redirect(...)

    <form id="call" class="form" method="post" data-check="{{ the same address }}">
      {{ inputs(form) }}
      <button class="primary">Run</button>
    </form>

The buttons of the form send ``_add``, ``_remove``, ``_example`` and ``_use``; ``form.js`` sends
``_check``.  ``_side`` says whether the fields or the text ``_json`` holds the value.  Which kind of
value a field gives is known from the schema alone; ``form_fields`` says what the names mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from covalt_git.json_values import canonical_json, json_schema
from covalt_git.text.display import shorten
from covalt_server.forms.fields import ROOT, Choice, Field, draw, marked
from covalt_server.forms.parsing import Reading, lines, read_json, settled
from covalt_server.forms.problems import FieldProblem, by_path, refusals, with_place, wrong
from covalt_server.forms.shapes import COMPOSITE, MISSING, Kind, as_json, shape_of_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from werkzeug.datastructures import MultiDict

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool_properties import Example

JSON_BOX = "_json"
"""The box that holds the whole value as JSON, on the side of the form that has it."""

_BUTTONS = frozenset({"_add", "_remove", "_example", "_use"})
"""With one of them nothing is run, even if it is not there any more."""

Wants = Literal["run", "redraw", "check"]
Side = Literal["form", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A form that was opened or sent.

    ``value`` is the JSON value, and None where what was typed is no value at all.  It is right for
    the schema if ``wants`` is ``"run"``; a form with problems is to be shown again instead.
    """

    value: Any
    fields: Field
    problems: tuple[FieldProblem, ...] = ()
    wants: Wants = "redraw"
    side: Side = "form"
    text: str = ""
    examples: tuple[Choice, ...] = ()

    def refused(self, problems: Sequence[Problem]) -> Submitted:
        """Return the form to show again after the tool itself refused the arguments."""
        if self.side == "json":
            found = tuple(FieldProblem(JSON_BOX, f"{one.path}: {one.message}") for one in problems)
            return replace(self, problems=found, wants="redraw")
        found = refusals(self.fields, problems)
        fields = marked(self.fields, by_path(found), _start_of(self.fields, found[0].path))
        return replace(self, problems=found, fields=fields, wants="redraw")

    def answer(self) -> JsonObject:
        """Return the answer to ``form.js``, which asks what is wrong while somebody types."""
        return {
            "args": self.value,
            "problems": [{"path": one.path, "message": one.message} for one in self.problems],
        }


def opened(
    schema: JsonObject, value: Any = MISSING, *, examples: Sequence[Example] = ()
) -> Submitted:
    """Return the form of a schema, with a value to start from or its own defaults.

    Raises:
        BadSchemaError: when the schema cannot be used, and a value is to be checked by it.
    """
    fields = draw(schema, value)
    shown = tuple(_example(at, one) for at, one in enumerate(examples))
    if value is MISSING:
        return Submitted(value=None, fields=fields, examples=shown)
    problems = wrong(schema, value, fields)
    fields = marked(fields, by_path(problems))
    return Submitted(value=value, fields=fields, problems=problems, examples=shown)


def submitted(
    schema: JsonObject, form: MultiDict[str, str], *, examples: Sequence[Example] = ()
) -> Submitted:
    """Return what a form of :func:`opened` says, and what is wanted of whoever received it.

    Raises:
        BadSchemaError: when the schema cannot be used.
    """
    shown = tuple(_example(at, one) for at, one in enumerate(examples))
    if "_example" in form:
        chosen = form.get("_example", -1, type=int)
        if 0 <= chosen < len(examples):
            return opened(schema, examples[chosen].args, examples=examples)
    if form.get("_side") == "json":
        return replace(_of_json(schema, form), examples=shown)
    return replace(_of_fields(schema, form), examples=shown)


# The two sides of a form


def _of_json(schema: JsonObject, form: MultiDict[str, str]) -> Submitted:
    """Return what the text of the JSON side says."""
    text = lines(form.get(JSON_BOX, ""))
    value = None
    problems: tuple[FieldProblem, ...]
    try:
        value = read_json(text)
    except canonical_json.NotJsonError as error:
        fields = draw(schema)
        problems = (FieldProblem(JSON_BOX, f"this is not JSON: {error.message}"),)
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
    """Return what the fields say, after the list item was added or removed that was asked for."""
    reading = Reading(form)
    draft = reading.value(shape_of_arguments(schema), ROOT, ROOT, required=True)
    value = settled(draft)
    fields = draw(schema, draft, reading.typed)
    mistyped = tuple(reading.problems)
    if form.get("_use") == "json" and not mistyped:
        text = as_json(value, indent=2)
        return Submitted(value=value, fields=fields, side="json", text=text)
    if _BUTTONS & set(form):
        # Whoever is still filling in a form need not hear of all that is not there yet.
        start = mistyped[0].path if "_use" in form and mistyped else reading.focus
        shown = marked(fields, by_path(mistyped), _start_of(fields, start))
        return Submitted(value=None if mistyped else value, fields=shown, problems=mistyped)
    problems = wrong(schema, value, fields, mistyped)
    told = by_path(problems)
    first = next((one.name for one in fields.walk() if one.name in told), "")
    return Submitted(
        value=None if mistyped else value,
        fields=marked(fields, told, _start_of(fields, first)),
        problems=problems,
        wants=_wanted_parts(form, problems),
    )


def _wanted_parts(form: MultiDict[str, str], problems: Sequence[FieldProblem]) -> Wants:
    if "_check" in form:
        return "check"
    return "redraw" if problems or _BUTTONS & set(form) else "run"


def _start_of(fields: Field, name: str) -> str:
    """Return the name of the box where the keyboard goes on: in the field of that name, or it.

    In a list that is the button that adds an item, if it has one.
    """
    one = next((one for one in fields.walk() if one.name == name), None)
    while one is not None and one.kind in COMPOSITE and one.children:
        if one.kind is Kind.LIST and one.can_add:
            break
        one = one.children[0]
    return one.name if one else ""


def _example(at: int, example: Example) -> Choice:
    label = example.description or as_json(example.args)
    return Choice(str(at), shorten(label))
