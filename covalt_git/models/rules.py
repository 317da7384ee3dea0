"""Models of the rules of ``covalt.yaml``: which calls are allowed, wait for approval, or are denied."""

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from covalt_git.models.base import Bool, Id, Number, Pattern, StrictModel, Text, refusal
from covalt_git.models.tool_properties import Annotations
from covalt_git.paths import normal_path

Effect = Literal["allow", "ask", "deny"]

_FREE = {"description": "A value, or a text in which * matches any characters."}


def _is_condition(value: Any) -> str:
    return "condition" if isinstance(value, dict | ArgumentCondition) else "value"


def _check_folder(text: str) -> str:
    path = normal_path(text) if text else ""
    if path in {"", ".", "/"} or path.split("/")[0] == ".." or "*" in path:
        raise refusal(f"{text!r} is not a folder of the workspace", "write a path such as src/docs")
    return text


class ArgumentCondition(StrictModel):
    """The condition of a rule on one argument; all its parts must hold."""

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    is_in: tuple[Any, ...] | None = Field(
        None,
        alias="in",
        min_length=1,
        description="Values or text patterns, of which one must match.",
    )
    min: Annotated[Number, Field(allow_inf_nan=False)] | None = Field(
        None, description="Least number."
    )
    max: Annotated[Number, Field(allow_inf_nan=False)] | None = Field(
        None, description="Greatest number."
    )
    exists: Bool | None = Field(None, description="Whether the call has the argument.")
    under: Annotated[str, AfterValidator(_check_folder)] | None = Field(
        None, description="Folder that contains the path."
    )
    is_not: "ArgumentValue" = Field(
        None, alias="not", description="A value, a text pattern or a condition that must not match."
    )

    @model_validator(mode="after")
    def _can_hold(self) -> Self:
        keys = self.model_fields_set
        if not keys:
            hint = "write one of in, min, max, exists, under, not"
            raise refusal("a condition without a key matches nothing", hint)
        if self.min is not None and self.max is not None and self.min > self.max:
            raise refusal("min is greater than max, so no number matches", "exchange them")
        if self.exists is False and len(keys) > 1:
            hint = "remove the other keys, or exists"
            raise refusal("an argument that is not there has no value to compare", hint)
        return self


ArgumentValue = Annotated[
    Annotated[ArgumentCondition, Tag("condition")]
    | Annotated[Any, Field(json_schema_extra=_FREE), Tag("value")],
    Discriminator(_is_condition),
]
"""What a rule compares an argument with: a condition, or a value or text pattern."""

ArgumentCondition.model_rebuild()


class RuleCondition(StrictModel):
    """The condition of a rule; all its parts must hold."""

    annotations: Annotations | None = Field(
        None, description="Annotations that the tool must have."
    )
    args: dict[str, ArgumentValue] = Field(
        default_factory=dict,
        description="Argument paths with values, text patterns or conditions. "
        "Texts are compared both as they are and as normalized paths.",
    )


class PolicyRule(StrictModel):
    """What happens to the calls that it matches; the first rule that applies to a call decides.

    A text argument is compared both as it is and as a normalized path.  To deny a call or to require its approval, one of
    them must match; to allow it, both must match.
    """

    pattern: Pattern = Field(description="Pattern of the tools.")
    roles: tuple[Id, ...] = Field((), description="Roles whose calls it is about; default: all.")
    when: RuleCondition = Field(
        RuleCondition(), description="Condition on the calls of these tools."
    )
    effect: Effect = Field(
        description="allow: the call runs without approval. ask: it requires approval. deny: it is refused."
    )
    reason: Text | None = Field(None, description="Reason that the caller gets.")

    @property
    def requires(self) -> bool:
        """Whether it limits calls: it denies them, or requires their approval."""
        return self.effect != "allow"

    @property
    def is_of_all_calls(self) -> bool:
        """Whether it applies to each call of its tools by its roles."""
        annotations = self.when.annotations
        return not self.when.args and (
            annotations is None or not annotations.model_dump(exclude_none=True)
        )

    def is_for(self, role: str | None) -> bool:
        """Return whether it is about the calls of a role; None: of users without a role."""
        return not self.roles or role in self.roles

    @property
    def condition(self) -> dict[str, Any]:
        """Its condition as written, without parts that say nothing."""
        when = self.when.model_dump(mode="json", exclude_unset=True, by_alias=True)
        if isinstance(annotations := when.get("annotations"), dict):
            when["annotations"] = {
                name: value for name, value in annotations.items() if value is not None
            }
        return {name: value for name, value in when.items() if value}


class ApprovalCondition(StrictModel):
    """The condition of an approval rule; all its parts must match."""

    annotations: Annotations | None = Field(
        None, description="Annotations that the tool must have."
    )
    args: dict[str, Any] = Field(
        default_factory=dict,
        description="Argument paths and their values; * in a text matches any characters. "
        "Texts are compared both as they are and as normalized paths.",
    )


class ApprovalRule(StrictModel):
    """Whether matching calls require approval: an earlier form of a rule.

    A text argument is compared both as it is and as a normalized path.  With ``require: true``, one of
    them must match; with ``require: false``, both must match.
    """

    # Both forms, so that no spelling of a file, such as a/../.env/., asks less than the path of the file.
    pattern: Pattern = Field(description="Pattern of the tools.")
    when: ApprovalCondition = Field(
        ApprovalCondition(), description="Condition on the calls of these tools."
    )
    require: Bool = Field(default=True, description="Whether the calls require approval.")

    @property
    def as_rule(self) -> PolicyRule:
        """The same rule in the form of ``rules``, where a mapping is a condition and not a value."""
        args = {
            path: ArgumentCondition(is_in=(value,)) if isinstance(value, dict) else value
            for path, value in self.when.args.items()
        }
        when = RuleCondition(annotations=self.when.annotations, args=args)
        return PolicyRule(
            pattern=self.pattern, when=when, effect="ask" if self.require else "allow"
        )


class CallDecision(NamedTuple):
    """What the rules of a project and the settings of a tool decide about one call.

    Attributes:
        effect: ``allow``: it runs. ``ask``: it requires approval. ``deny``: it is refused.
        reasons: Why it requires approval, or is refused.
    """

    effect: Effect
    reasons: tuple[str, ...] = ()

    @property
    def asks(self) -> tuple[str, ...]:
        """Why it requires approval; empty if it runs or is refused."""
        return self.reasons if self.effect == "ask" else ()
