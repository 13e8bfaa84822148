"""Routes of the pages about notifications."""

from __future__ import annotations

from django.urls import path

from ocmconsole.notifications import notification_pages as pages

app_name = "notifications"

urlpatterns = [
    path("", pages.listed, name="list"),
    path("-/add/", pages.add, name="add"),
    path("-/replay/<int:number>/", pages.replay, name="replay"),
    path("<str:name>/", pages.channel, name="channel"),
    path("<str:name>/replay/", pages.replay_all, name="replay-all"),
    path("<str:name>/address/", pages.address, name="address"),
    path("<str:name>/rule/", pages.rule, name="rule"),
    path("<str:name>/rule/<int:number>/remove/", pages.remove_rule, name="remove-rule"),
    path("<str:name>/quiet/", pages.quiet, name="quiet"),
    path("<str:name>/quiet/<int:number>/remove/", pages.remove_quiet, name="remove-quiet"),
    path("<str:name>/secret/", pages.secret, name="secret"),
    path("<str:name>/forget/", pages.forget, name="forget"),
    path("<str:name>/switch/", pages.switch, name="switch"),
    path("<str:name>/test/", pages.test, name="test"),
    path("<str:name>/delete/", pages.delete, name="delete"),
]
