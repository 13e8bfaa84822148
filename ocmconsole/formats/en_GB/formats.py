"""Django's names (FORMAT_MODULE_PATH). 23 Nov 2026, 14:33:05 UTC."""

from __future__ import annotations

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y, H:i:s e"
