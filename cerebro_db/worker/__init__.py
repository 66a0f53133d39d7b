"""One segment's worker in a process of its own; `python -m cerebro_db.worker` serves one on stdin and stdout."""
