"""Routes of the approval pages."""

from __future__ import annotations

from django.urls import path

from registration.approvals import bulk_pages, decision_pages, inbox_pages, request_pages
from registration.certificates import (
    certificate_pages,
    disconnect_pages,
    fallen_pages,
    identity_tab,
    repair_pages,
)
from registration.joining import token_pages, wizard_pages
from registration.policies import policy_pages

app_name = "registration"

urlpatterns = [
    path("approvals/", inbox_pages.waiting, name="approvals"),
    # No cluster can be called "-".
    path("approvals/-/select/", bulk_pages.select, name="select"),
    path("approvals/-/decided/", inbox_pages.decided, name="decided"),
    path("approvals/-/superseded/", inbox_pages.superseded, name="superseded"),
    path("approvals/-/together/<uuid:pk>/<str:name>/", bulk_pages.preview, name="bulk"),
    path("approvals/<str:name>/", request_pages.detail, name="request"),
    path("approvals/<str:name>/effects/", request_pages.effects_of, name="effects"),
    path("approvals/<str:name>/accept/", decision_pages.accept, name="accept"),
    path("approvals/<str:name>/override/", decision_pages.override, name="override"),
    path("approvals/<str:name>/decline/", decision_pages.decline, name="decline"),
    path("approvals/<str:name>/lift/", decision_pages.lift, name="lift"),
    path("approvals/<str:name>/later/", decision_pages.put_off, name="later"),
    path("approvals/<str:name>/back/", decision_pages.bring_back, name="back"),
    path("certificates/", certificate_pages.certificate_list, name="certificates"),
    path("certificates/-/fallen/", fallen_pages.fallen_list, name="fallen"),
    path("certificates/-/revoke/", certificate_pages.revoke_many, name="revoke-many"),
    path("ca/", certificate_pages.authority, name="ca"),
    path("ca/ca.crt", certificate_pages.authority_file, name="ca-file"),
    path("certificates/<str:fingerprint>/revoke/", identity_tab.revoke, name="revoke"),
    path("clusters/add/", wizard_pages.place, name="add"),
    path("clusters/add/address/", wizard_pages.address, name="add-address"),
    path("clusters/add/address/remove/", wizard_pages.address_removal, name="remove-address"),
    path("clusters/add/token/", wizard_pages.token, name="add-token"),
    path("clusters/add/run/", wizard_pages.run, name="add-run"),
    path("clusters/add/file/<str:what>", wizard_pages.download, name="add-file"),
    path("clusters/add/watch/<str:token_id>/", wizard_pages.watch, name="add-watch"),
    path("tokens/", token_pages.token_list, name="tokens"),
    path("tokens/mint/", token_pages.mint, name="mint"),
    path("tokens/<str:token_id>/revoke/", token_pages.revoke, name="revoke-token"),
    path("policies/", policy_pages.policy_list, name="policies"),
    path("policies/-/new/", policy_pages.create, name="new-policy"),
    path("policies/<str:name>/", policy_pages.policy_detail, name="policy"),
    path("policies/<str:name>/edit/", policy_pages.edit, name="edit-policy"),
    path("policies/<str:name>/switch/", policy_pages.switch, name="switch-policy"),
    path("policies/<str:name>/delete/", policy_pages.delete, name="delete-policy"),
    path("clusters/<str:name>/disconnect/", disconnect_pages.disconnect, name="disconnect"),
    path("clusters/<str:name>/reconnect/", disconnect_pages.reconnect, name="reconnect"),
    path("clusters/<str:name>/repair/", repair_pages.repair, name="repair"),
    path("clusters/<str:name>/repair/file/", repair_pages.download, name="repair-file"),
]
