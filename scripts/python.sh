# shellcheck shell=bash
# Sourced: which Python an interpreter is, and which one a plpython3.so embeds. Compiled packages such as torch must be
# for the very minor version that plpython3u embeds.

# minor_of INTERPRETER: such as 3.11, or nothing.
minor_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# linked_minor LIBRARY: the same of the libpython that a plpython3.so is linked with.
linked_minor() { grep -aoE 'libpython3\.[0-9]+' "$1" | head -n 1 | sed 's/libpython//'; }
