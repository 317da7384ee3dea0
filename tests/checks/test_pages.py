"""References of pages that their frame refuses."""

from covalt_git.checks.pages import MAX_PAGE_BYTES, artifact_problems
from covalt_git.problems import codes


def test_a_page_that_is_larger_than_the_limit_is_not_checked() -> None:
    page = b'<a href="https://example.com/">away</a>'.ljust(MAX_PAGE_BYTES)

    assert [one.code for one in artifact_problems(page, "page.html")] == [codes.PAGE_LEAVES]
    assert artifact_problems(page + b" ", "page.html") == []
