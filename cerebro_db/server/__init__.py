"""What the SQL functions call: thin adapters from PL/Python to the package."""
