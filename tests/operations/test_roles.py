"""Roles: listed as ``covalt.yaml`` defines them."""

import pytest

from tests.api_client import configure
from tests.operations_client import Operations


@pytest.mark.requirement("toolshed-roles")
def test_a_role_has_an_id_a_name_and_patterns_of_tools(operate: Operations) -> None:
    patterns = {"allow": ["data-lab.**"], "deny": ["*.delete_*"], "approve": ["data-lab.plot"]}
    configure(operate.root, f"roles: {{reader: {{name: Reader of Data, {str(patterns)[1:-1]}}}}}\n")

    (role,) = operate("list_roles")["roles"]

    assert (role["id"], role["name"]) == ("reader", "Reader of Data")
    assert {name: role[name] for name in patterns} == patterns
