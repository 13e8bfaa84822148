"""An enumeration whose members are shown: values are stable, labels are for people."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class LabelledEnum(StrEnum):
    """Members are written ``NAME = value, label``, with tone and icon where pages show them."""

    label: str
    tone: str
    icon: str

    def __new__(cls, value: str, label: str, tone: str = "", icon: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.label, member.tone, member.icon = label, tone, icon
        return member
