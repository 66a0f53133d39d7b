"""Worker processes, one per segment: on this machine, or as actors of Ray."""
