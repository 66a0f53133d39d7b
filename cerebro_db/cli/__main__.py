"""`python -m cerebro_db.cli`, the same as `cerebro-db`."""

from cerebro_db.cli import app

app()
