"""Other ways to train the same configs, each in a process of its own: `python -m experiments.baselines.<name>`.

A job comes as one line of JSON on stdin; the result is the last line of stdout. See `base`.
"""
