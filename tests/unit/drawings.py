"""What a page draws."""

from __future__ import annotations

import json
import re
from typing import Any, Dict


def drawn(page: str) -> Dict[str, Any]:
    """The plots of a page by the names of their elements."""
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    plots: Dict[str, Any] = json.loads(found.group(1))
    return plots
