"""Routes of the pages of sets and bindings.

What is no name begins with an underscore: no set and no namespace can be called so.
"""

from __future__ import annotations

from django.urls import path

from clustersets.views import move, namespaces, of_cluster  # noqa: F401 - a tab
from clustersets.views.create import create_set
from clustersets.views.detail import candidates, set_page
from clustersets.views.list import set_list
from clustersets.views.removal import delete_set

app_name = "clustersets"

urlpatterns = [
    path("sets/", set_list, name="list"),
    path("sets/_new/", create_set, name="create"),
    path("sets/_move/<uuid:pk>/", move.move_many, name="moves"),
    path("sets/<str:name>/", set_page, name="set"),
    path("sets/<str:name>/_add/", candidates, name="add"),
    path("sets/<str:name>/_delete/", delete_set, name="delete"),
    path("sets/<str:name>/<str:tab>/", set_page, name="set"),
    path("clusters/<str:cluster>/set/", move.move_one, name="move"),
    path("namespaces/", namespaces.namespace_list, name="namespaces"),
    path("namespaces/_bind/", namespaces.bind, name="bind"),
    path("namespaces/<str:namespace>/", namespaces.namespace_page, name="namespace"),
    path("namespaces/<str:namespace>/_unbind/<str:name>/", namespaces.unbind, name="unbind"),
]
