"""Routes of the pages of sets and bindings.

What is no name begins with an underscore: no set and no namespace can be called so.
"""

from __future__ import annotations

from django.urls import path

from clustersets.moves import move_pages
from clustersets.pages import namespace_pages
from clustersets.pages.create_pages import create_set
from clustersets.pages.delete_pages import delete_set
from clustersets.pages.list_pages import set_list
from clustersets.pages.set_pages import candidates, set_page

app_name = "clustersets"

urlpatterns = [
    path("sets/", set_list, name="list"),
    path("sets/_new/", create_set, name="create"),
    path("sets/_move/<uuid:pk>/", move_pages.move_many, name="moves"),
    path("sets/<str:name>/", set_page, name="set"),
    path("sets/<str:name>/_add/", candidates, name="add"),
    path("sets/<str:name>/_delete/", delete_set, name="delete"),
    path("sets/<str:name>/<str:tab>/", set_page, name="set"),
    path("clusters/<str:cluster>/set/", move_pages.move_one, name="move"),
    path("namespaces/", namespace_pages.namespace_list, name="namespaces"),
    path("namespaces/_bind/", namespace_pages.bind, name="bind"),
    path("namespaces/<str:namespace>/", namespace_pages.namespace_page, name="namespace"),
    path("namespaces/<str:namespace>/_unbind/<str:name>/", namespace_pages.unbind, name="unbind"),
]
