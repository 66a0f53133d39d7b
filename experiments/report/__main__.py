"""Make the page again from a folder's CSV files: `python -m experiments.report FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import List

from experiments import report


def main(words: List[str]) -> int:
    if len(words) != 1 or not Path(words[0]).is_dir():
        sys.stderr.write(f"{__doc__}\n")
        return 2
    sys.stdout.write(f"{report.write(Path(words[0]))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
