"""From facts to edits: phases, the workspace they are made in, and how they reach the disk."""
