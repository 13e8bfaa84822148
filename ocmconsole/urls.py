"""Routes of the console listener."""

from __future__ import annotations

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from ocmconsole.console import bulk_job_pages, first_steps, preferences, second_approval_pages, shell
from ocmconsole.console.activity import activity
from ocmconsole.console.attention_pages import attention, dismiss
from ocmconsole.console.hub_health import hub_health
from ocmconsole.console.live_updates import live
from ocmconsole.console.overview import overview
from ocmconsole.console.reports import report_pages
from ocmconsole.console.search import search
from ocmconsole.demo import demo_pages

admin.site.site_header = admin.site.site_title = "ocmconsole"
admin.site.index_title = "Django admin"
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign] # allauth's documented way

handler400 = "ocmconsole.components.error_pages.bad_request"
handler403 = "ocmconsole.components.error_pages.forbidden"
handler404 = "ocmconsole.components.error_pages.not_found"
handler429 = "ocmconsole.components.error_pages.too_many"  # allauth's
handler500 = "ocmconsole.components.error_pages.failed"

bulk = [
    path("", bulk_job_pages.jobs, name="list"),
    path("<uuid:pk>/", bulk_job_pages.job, name="job"),
    path("<uuid:pk>/stop/", bulk_job_pages.stop, name="stop"),
    path("<uuid:pk>/undo/", bulk_job_pages.undo, name="undo"),
    path("<uuid:pk>/results.csv", bulk_job_pages.results, name="results"),
]

second_approval = [
    path("", second_approval_pages.waiting, name="list"),
    path("closed/", second_approval_pages.closed, name="closed"),
    path("<int:pk>/", second_approval_pages.detail, name="detail"),
    path("<int:pk>/approve/", second_approval_pages.approve, name="approve"),
    path("<int:pk>/carry-out/", second_approval_pages.carry_out, name="carry-out"),
    path("<int:pk>/decline/", second_approval_pages.decline, name="decline"),
]

urlpatterns = [
    path("", overview, name="home"),
    path("", include("ocmconsole.signin.urls")),
    path("preferences/", preferences.preferences, name="preferences"),
    path("live", live, name="live"),
    path("search/", search, name="search"),
    path("activity/", activity, name="activity"),
    path("activity/report/", report_pages.report, name="report"),
    path("first-steps/", first_steps.dismiss, name="first-steps"),
    path("attention/", attention, name="attention"),
    path("attention/dismiss/", dismiss, name="dismiss"),
    path("bulk/", include((bulk, "bulk"))),
    path("second-approval/", include((second_approval, "second-approval"))),
    path("hub/", hub_health, name="hub"),
    path("notifications/", include("ocmconsole.notifications.urls")),
    path("demo/", demo_pages.page, name="demo"),
    path("demo/make/", demo_pages.make, name="demo-make"),
    path("demo/remove/", demo_pages.remove, name="demo-remove"),
    path("help/", shell.help_page, name="help"),
    path("", include("registration.urls")),
    path("", include("placements.urls")),
    path("", include("clustersets.urls")),
    path("", include("clusters.urls")),
    path("access/", include("ocmconsole.access.urls")),
    # Guesses of the old password are counted there.
    path("admin/password_change/", RedirectView.as_view(pattern_name="account_change_password")),
    path("admin/", admin.site.urls),
]
