"""Model of ``policy_tests.yaml``: calls, and what the policy of the project must decide about them."""

from typing import Any, Literal

from pydantic import Field

from covalt_git.models.base import FullToolId, Id, One, StrictModel

PolicyOutcome = Literal["hidden", "denied", "asks", "runs"]


class PolicyCase(StrictModel):
    """A call, and the expected decision."""

    role: Id | None = Field(None, description="Role of the caller; default: the default role.")
    tool: FullToolId = Field(description="Tool that is called.")
    args: dict[str, Any] = Field(default_factory=dict, description="Arguments of the call.")
    expect: PolicyOutcome = Field(
        description="hidden: the role does not see the tool. denied: a rule refuses the call. asks: it requires"
        " approval. runs: it runs without approval."
    )


class PolicyTests(StrictModel):
    """The content of ``policy_tests.yaml``."""

    version: One = Field(description="Version of this format.")
    cases: tuple[PolicyCase, ...] = Field((), description="Calls with the expected decisions.")
