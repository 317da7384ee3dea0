"""A message about a wrong value quotes it, but not a token in it."""

from pathlib import Path

import pytest

from covalt_git.manifests.project_config import BrokenConfigError, read_config
from tests.security.test_tokens_in_every_position import TOKENS


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nlimits: {{timeout_s: {}}}\n",
        "version: 1\n{}: 1\n",
        "version: 1\ndefault_role: [{}]\n",
        "version: {}\n",
        "version: *{}\n",
    ],
)
@pytest.mark.parametrize("name", ["github", "npm"])
def test_no_error_of_the_configuration_has_a_token(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "covalt.yaml").write_text(text.format(TOKENS[name]))

    with pytest.raises(BrokenConfigError) as caught:
        read_config(tmp_path)

    assert TOKENS[name] not in str(caught.value)
