"""Problem codes, their explanations and reports."""
