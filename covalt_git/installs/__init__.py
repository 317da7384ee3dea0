"""What is decided about toolsets, and how they come here."""
