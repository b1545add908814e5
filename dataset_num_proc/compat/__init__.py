"""Other projects' names, on top of ours: each module puts ours in place of one project's, and takes them back."""
