"""Django permissions on cluster sets as an authorizer, and as what a page may show (D2, D16)."""

from __future__ import annotations

from clusters.grants import CHANGE, DELETE, READ, Grants
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import ManagedClusterSetGroupPermission, ManagedClusterSetUserPermission, SetPermission
from ocmconsole.core.rbac import known_rights
from ocmconsole.kubeapi.access import authorization

SETS = Grants(
    MANAGED_CLUSTER_SET,
    "clustersets",
    ManagedClusterSetUserPermission,
    ManagedClusterSetGroupPermission,
    verbs={
        SetPermission.VIEW.codename: READ,
        SetPermission.CHANGE.codename: CHANGE,
        SetPermission.DELETE.codename: DELETE,
        SetPermission.JOIN.codename: READ,
        SetPermission.BIND.codename: READ,
        SetPermission.MOVE.codename: READ,
    },
)
authorization.authorizer(SETS.decide)
known_rights.carries(SETS.labels_for)
known_rights.register(*SETS.words("set"))
