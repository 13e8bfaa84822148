"""Of what there are messages: a closed list, each with severity, sentence and a page of the console. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from ocmconsole.kubeapi.storage import audit_acts
from ocmconsole.models import Severity

MOST_NAMED = 10  # clusters that a message names; the rest are counted


@dataclass(frozen=True, slots=True)
class MessageKind:
    """``list_page`` is where the console lists such; ``one_page`` where it shows one cluster or request.

    One with an ``act`` has the sentence of the audit, which is asked for late: apps declare theirs when they are ready.
    """

    name: str
    severity: Severity
    own_sentence: str
    list_page: str
    one_page: str = ""
    act: str = ""

    @property
    def sentence(self) -> str:
        return self.own_sentence or audit_acts.done_sentence(self.act) or self.act

    def path(self, names: list[str], clusterset: str, count: int) -> str:
        if self.one_page and count == 1 and len(names) == 1:
            return self.one_page.replace("NAME", quote(names[0], safe=""))
        page, _, query = self.list_page.partition("?")
        if clusterset and page == "/clusters/":
            query = "&".join(filter(None, (query, urlencode({"set": clusterset}))))
        return f"{page}?{query}" if query else page


def _of_act(name: str, severity: Severity, act: str, list_page: str, one_page: str = "") -> MessageKind:
    return MessageKind(name, severity, "", list_page, one_page, act)


INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
CLUSTER = "/clusters/NAME/"

WAITS = MessageKind("request.waiting", WARNING, "Waits for approval", "/approvals/", "/approvals/NAME/")
SILENT = MessageKind("cluster.silent", CRITICAL, "Fell silent", "/clusters/?status=silent", CLUSTER)
RECOVERED = MessageKind("cluster.recovered", INFO, "Came back", "/clusters/", CLUSTER)
ENDING = MessageKind(
    "certificate.ending", WARNING, "Certificate ends within 7 days", "/certificates/?bucket=week", CLUSTER
)
BEHIND = MessageKind("audit.behind", WARNING, "A receiver of the audit is behind", "/hub/")
TEST = MessageKind("test", INFO, "Test of a channel", "/notifications/")
# By the act of the audit.
OF_ACTS = {
    act: _of_act(name, severity, act, *pages)
    for act, name, severity, *pages in (
        ("managedcluster:decline", "cluster.declined", INFO, "/approvals/-/decided/", "/approvals/NAME/"),
        ("managedcluster:disconnect", "cluster.disconnected", WARNING, "/clusters/?status=disconnected", CLUSTER),
        ("managedcluster:delete", "cluster.removed", WARNING, "/activity/?act=managedcluster:delete"),
        ("managedcluster:accept-key", "key.overridden", CRITICAL, "/certificates/", "/clusters/NAME/identity/"),
        ("certificate:revoke", "certificate.revoked", CRITICAL, "/certificates/?bucket=revoked"),
        ("certificate:unknown", "certificate.unknown", CRITICAL, "/certificates/"),
        ("second-approval:propose", "approval.waiting", WARNING, "/second-approval/", "/second-approval/NAME/"),
        ("placement:hold-evictions", "evictions.held", CRITICAL, "/placements/"),
        ("placement:release-evictions", "evictions.released", WARNING, "/placements/"),
        ("hub:restore", "hub.restored", CRITICAL, "/hub/"),
        ("hub:activate", "hub.activated", WARNING, "/hub/"),
    )
}
KINDS = {each.name: each for each in (WAITS, SILENT, RECOVERED, ENDING, *OF_ACTS.values(), BEHIND)}


def kind_of(name: str) -> MessageKind:
    """Also of a message that was made by a hub that knew more."""
    return TEST if name == TEST.name else KINDS.get(name) or MessageKind(name, INFO, name, "/activity/")
