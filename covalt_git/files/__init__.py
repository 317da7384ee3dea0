"""The project directory: its hand-written files read and checked, its machine-written ones kept."""
