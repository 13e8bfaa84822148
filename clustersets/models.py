"""Rows of cluster sets and of their bindings. Membership is computed (``membership``), never stored."""

from __future__ import annotations

from django.db import models
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from ocmconsole.kubeapi.models import NameField, PermissionName, Resource


class SetPermission(PermissionName):
    VIEW = "clustersets.view_managedclusterset"
    CHANGE = "clustersets.change_managedclusterset"
    DELETE = "clustersets.delete_managedclusterset"
    JOIN = "clustersets.join_managedclusterset"
    BIND = "clustersets.bind_managedclusterset"
    MOVE = "clustersets.move_managedclusterset"


class ManagedClusterSet(Resource):
    # Whether the set asks its clusters for namespaces (H33).
    manages_namespaces = models.BooleanField(default=False)

    class Meta(Resource.Meta):
        permissions = [
            (SetPermission.JOIN.codename, "Can add clusters to the set and take them out"),
            (SetPermission.BIND.codename, "Can bind the set into namespaces"),
            (SetPermission.MOVE.codename, "Can change the set label of its clusters"),
        ]


class ManagedClusterSetUserPermission(UserObjectPermissionBase):
    """A permission on one set. It dies with the object, so a name that is created again inherits nothing."""

    content_object = models.ForeignKey(ManagedClusterSet, on_delete=models.CASCADE)


class ManagedClusterSetGroupPermission(GroupObjectPermissionBase):
    content_object = models.ForeignKey(ManagedClusterSet, on_delete=models.CASCADE)


class ManagedClusterSetBinding(Resource):
    cluster_set = NameField(max_length=253, db_index=True)

    class Meta(Resource.Meta):
        pass


class ClusterProfile(Resource):
    """What tools of the ecosystem read of one cluster, in one namespace that has a binding. Named as the cluster."""

    class Meta(Resource.Meta):
        indexes = [models.Index(fields=["name"])]
