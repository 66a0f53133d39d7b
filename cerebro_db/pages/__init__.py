"""Heap and TOAST pages of a relation's files -> the values of its rows, past the server.

Pure: file bytes in, values out. What varies between servers is in `format.Format`, and is asked of the
server; offsets inside headers belong to page layout version 4, which every page is checked for.
Which row versions to read is not decided here: the caller names them as its snapshot sees them.
"""
