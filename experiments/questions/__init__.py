"""The questions: a script each, with a TOML file beside it that says what is measured at each size."""
