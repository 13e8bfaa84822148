"""Routes of the console listener."""

from __future__ import annotations

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path

from ocmconsole import bulkpages, demopages, firststeps, preferences, views
from ocmconsole.activity import activity
from ocmconsole.admin import OwnPassword
from ocmconsole.attention import attention, dismiss
from ocmconsole.hub import hub_health
from ocmconsole.live import live
from ocmconsole.overview import overview
from ocmconsole.search import search

admin.site.site_header = admin.site.site_title = "ocmconsole"
admin.site.index_title = "Django admin"
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign] # allauth's documented way

handler400 = "ocmconsole.errorpages.bad_request"
handler403 = "ocmconsole.errorpages.forbidden"
handler404 = "ocmconsole.errorpages.not_found"
handler429 = "ocmconsole.errorpages.too_many"  # allauth's
handler500 = "ocmconsole.errorpages.failed"

bulk = [
    path("", bulkpages.jobs, name="list"),
    path("<uuid:pk>/", bulkpages.job, name="job"),
    path("<uuid:pk>/stop/", bulkpages.stop, name="stop"),
    path("<uuid:pk>/undo/", bulkpages.undo, name="undo"),
    path("<uuid:pk>/results.csv", bulkpages.results, name="results"),
]

urlpatterns = [
    path("", overview, name="home"),
    path("", include("ocmconsole.signin.urls")),
    path("preferences/", preferences.preferences, name="preferences"),
    path("live", live, name="live"),
    path("search/", search, name="search"),
    path("activity/", activity, name="activity"),
    path("first-steps/", firststeps.dismiss, name="first-steps"),
    path("attention/", attention, name="attention"),
    path("attention/dismiss/", dismiss, name="dismiss"),
    path("bulk/", include((bulk, "bulk"))),
    path("hub/", hub_health, name="hub"),
    path("demo/", demopages.page, name="demo"),
    path("demo/make/", demopages.make, name="demo-make"),
    path("demo/remove/", demopages.remove, name="demo-remove"),
    path("help/", views.help_page, name="help"),
    path("", include("registration.urls")),
    path("", include("clustersets.urls")),
    path("", include("clusters.urls")),
    path("access/", include("ocmconsole.corekinds.urls")),
    path("admin/password_change/", admin.site.admin_view(OwnPassword.as_view())),
    path("admin/", admin.site.urls),
]
