"""What the conditions of a cluster mean, in plain words, and how bad each status is. Data; read by pages.

Of a condition that is not listed here nobody can say whether True is good: it is shown as it is, without a tone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusters.kinds import ConditionType

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc


@dataclass(frozen=True, slots=True)
class ConditionHelp:
    tone: str
    text: str
    todo: str = ""


# Worst first.
TONES = ("danger", "warn", "caution", "quiet", "ok")
UNKNOWN = ConditionHelp("quiet", "")

CONDITION_HELP: dict[str, dict[str, ConditionHelp]] = {
    ConditionType.ACCEPTED: {
        "True": ConditionHelp("ok", "The hub lets this cluster in: its agent has its rights."),
        "False": ConditionHelp("warn", "The hub does not let this cluster in, or could not set up its rights."),
    },
    ConditionType.JOINED: {
        "True": ConditionHelp("ok", "The agent came back with the certificate that the hub issued."),
        "False": ConditionHelp(
            "caution", "The agent has not come back with its certificate.", "Look at the agent's log."
        ),
    },
    ConditionType.AVAILABLE: {
        "True": ConditionHelp("ok", "The cluster's API server answered when the agent asked last."),
        "False": ConditionHelp(
            "danger", "The agent is heard, but the cluster's API server is not well.", "Look at that API."
        ),
        "Unknown": ConditionHelp(
            "danger", "The agent is not heard any more.", "See whether it runs and reaches the hub."
        ),
    },
    ConditionType.CLOCK_SYNCED: {
        "True": ConditionHelp("ok", "The agent's clock agrees with the hub's."),
        "False": ConditionHelp(
            "caution",
            "The agent's clock is too far from the hub's, so it withholds its status. Time zones do not matter.",
            "Set the clocks right (NTP) on the cluster's nodes or on the hub.",
        ),
    },
    ConditionType.DELETING: {
        "True": ConditionHelp("quiet", "Nothing of what the hub cleans up is left in the cluster's namespace."),
        "False": ConditionHelp("warn", "The removal waits for what is left in the cluster's namespace."),
    },
}


def condition_help(condition: Doc) -> ConditionHelp:
    return CONDITION_HELP.get(condition["type"], {}).get(condition["status"], UNKNOWN)
