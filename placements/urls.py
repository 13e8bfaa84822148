"""Routes of the pages of placements."""

from __future__ import annotations

from django.urls import path

from placements.pages import cluster_tab, impact  # noqa: F401 - a tab, and what pages of clusters ask
from placements.pages.brake_pages import held_page
from placements.pages.broken_change import undo
from placements.pages.history_tab import history_page
from placements.pages.list_pages import placement_list
from placements.pages.placement_pages import placement_page, why_page
from placements.pages.playground.playground_pages import playground
from placements.pages.playground.review_page import review

app_name = "placements"

urlpatterns = [
    path("placements/", placement_list, name="list"),
    path("placements/playground/", playground, name="playground"),
    path("placements/-/review/", review, name="review"),
    path("placements/held/", held_page, name="held"),
    path("placements/<str:namespace>/<str:name>/", placement_page, name="placement"),
    path("placements/<str:namespace>/<str:name>/why/", why_page, name="why"),
    path("placements/<str:namespace>/<str:name>/undo/", undo, name="undo"),
    path("placements/<str:namespace>/<str:name>/history/", history_page, name="history"),
]
