"""Routes of the access pages."""

from __future__ import annotations

from django.urls import path

from ocmconsole.access import access_pages, account_pages, explain_pages, giving_pages

app_name = "access"

urlpatterns = [
    path("", access_pages.listed, name="list"),
    path("explain/", explain_pages.explained, name="explain"),
    path("explain/ask/", explain_pages.ask, name="ask"),
    path("resources/", access_pages.resource, name="resource"),
    path("risks/", access_pages.risky, name="risks"),
    path("requests/", giving_pages.requests, name="requests"),
    path("requests/<int:number>/", giving_pages.answer, name="answer"),
    path("give/", giving_pages.give, name="give"),
    path("take/", giving_pages.take, name="take"),
    path("add/person/", account_pages.add_person, name="add-person"),
    path("add/group/", account_pages.add_group, name="add-group"),
    path("account/active/", account_pages.activate, name="activate"),
    path("account/groups/", account_pages.join, name="join"),
    path("users/<path:name>/", access_pages.user, name="user"),
    path("groups/<path:name>/", access_pages.group, name="group"),
]
