"""What the SQL functions call: thin adapters from PL/Python to the package."""

from cerebro_db import own_libpq

own_libpq.prefer()
