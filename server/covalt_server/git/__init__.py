"""Git over HTTP."""
