"""What commands print, and how they follow long work."""
