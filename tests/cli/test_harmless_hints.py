"""Hints for misspelt names propose nothing that deletes or overwrites something."""

import pytest

from covalt_git.cli import main


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("chat remove c1", ""),
        ("chat delet c1", ""),
        ("token revok ci", ""),
        ("toolset create x", ""),
        ("delete", ""),
        ("convert x --forse", ""),
        ("chat lgo c1", "did you mean 'log'?"),
    ],
)
def test_no_destructive_command_is_proposed(
    line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(line.split())

    printed = capsys.readouterr().err
    error = printed.partition("Error: ")[2].casefold()
    assert error, printed
    assert ("did you mean" in error or "hint:" in error) == bool(hint), printed
    assert hint in error
