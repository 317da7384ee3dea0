"""Tables: rows of CSV files and of arrays of objects, filtered and sorted in one pass."""
