"""Tool formats of other systems: recognition, reading, writing, and a report of what is lost."""
