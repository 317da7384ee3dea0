"""The life of a call: from the question whether it may run to the commit that says what came of it."""
