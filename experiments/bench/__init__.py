"""`make bench`: one JSON line per measure; exit status 1 when a bar is missed.

Every measure is a ratio of two things taken in the same run, or a rate with its bar from the design, so
that a slow or busy machine moves both sides. A throwaway server is started and removed again.
"""
