"""Routes of the access pages."""

from __future__ import annotations

from django.urls import path

from ocmconsole.corekinds.views import access, accounts, explain, giving

app_name = "access"

urlpatterns = [
    path("", access.listed, name="list"),
    path("explain/", explain.explained, name="explain"),
    path("explain/ask/", explain.ask, name="ask"),
    path("resources/", access.resource, name="resource"),
    path("risks/", access.risky, name="risks"),
    path("requests/", giving.requests, name="requests"),
    path("requests/<int:number>/", giving.answer, name="answer"),
    path("give/", giving.give, name="give"),
    path("take/", giving.take, name="take"),
    path("add/person/", accounts.add_person, name="add-person"),
    path("add/group/", accounts.add_group, name="add-group"),
    path("account/active/", accounts.activate, name="activate"),
    path("account/groups/", accounts.join, name="join"),
    path("users/<path:name>/", access.user, name="user"),
    path("groups/<path:name>/", access.group, name="group"),
]
