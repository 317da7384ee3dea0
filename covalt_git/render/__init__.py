"""How a result is shown: expressions, render plans and pages with their data, without any I/O."""
