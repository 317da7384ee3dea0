"""Write docs/project/specification.md: ``python -m tests.specification``."""

from tests.specification.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
