"""Everything that touches the machine: reading it, and applying a decision to it. Nothing here decides."""
