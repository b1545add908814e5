"""The matrix simulation: its axes, its plan, the laws, and the walk that checks every law on every cell."""
