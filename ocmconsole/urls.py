"""Routes of the console listener."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from ocmconsole import views
from ocmconsole.activity import activity
from ocmconsole.admin import OwnPassword
from ocmconsole.hub import hub_health
from ocmconsole.live import live
from ocmconsole.overview import overview
from ocmconsole.search import search

admin.site.site_header = admin.site.site_title = "ocmconsole"
admin.site.index_title = "Django admin"

urlpatterns = [
    path("", overview, name="home"),
    path(
        "login/",
        LoginView.as_view(template_name="registration/login.html", redirect_authenticated_user=True),
        name="login",
    ),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("live", live, name="live"),
    path("search/", search, name="search"),
    path("activity/", activity, name="activity"),
    path("hub/", hub_health, name="hub"),
    path("help/", views.help_page, name="help"),
    path("", include("registration.urls")),
    path("", include("clustersets.urls")),
    path("", include("clusters.urls")),
    path("admin/password_change/", admin.site.admin_view(OwnPassword.as_view())),
    path("admin/", admin.site.urls),
]
