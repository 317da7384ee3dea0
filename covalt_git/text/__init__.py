"""What texts are made of, and how people see them."""
