"""Routes of the approval pages."""

from __future__ import annotations

from django.urls import path

from registration.views import (
    bulk,
    certificates,
    decisions,
    disconnect,
    identity,
    inbox,
    policies,
    request,
    tokens,
    wizard,
)

app_name = "registration"

urlpatterns = [
    path("approvals/", inbox.waiting, name="approvals"),
    # No cluster can be called "-".
    path("approvals/-/select/", bulk.select, name="select"),
    path("approvals/-/decided/", inbox.decided, name="decided"),
    path("approvals/-/superseded/", inbox.superseded, name="superseded"),
    path("approvals/-/together/<uuid:pk>/<str:name>/", bulk.preview, name="bulk"),
    path("approvals/<str:name>/", request.detail, name="request"),
    path("approvals/<str:name>/effects/", request.effects_of, name="effects"),
    path("approvals/<str:name>/accept/", decisions.accept, name="accept"),
    path("approvals/<str:name>/override/", decisions.override, name="override"),
    path("approvals/<str:name>/decline/", decisions.decline, name="decline"),
    path("approvals/<str:name>/lift/", decisions.lift, name="lift"),
    path("approvals/<str:name>/later/", decisions.put_off, name="later"),
    path("approvals/<str:name>/back/", decisions.bring_back, name="back"),
    path("certificates/", certificates.certificate_list, name="certificates"),
    path("certificates/-/revoke/", certificates.revoke_many, name="revoke-many"),
    path("ca/", certificates.authority, name="ca"),
    path("ca/ca.crt", certificates.authority_file, name="ca-file"),
    path("certificates/<str:fingerprint>/revoke/", identity.revoke, name="revoke"),
    path("clusters/add/", wizard.place, name="add"),
    path("clusters/add/address/", wizard.address, name="add-address"),
    path("clusters/add/address/remove/", wizard.address_removal, name="remove-address"),
    path("clusters/add/token/", wizard.token, name="add-token"),
    path("clusters/add/run/", wizard.run, name="add-run"),
    path("clusters/add/file/<str:what>", wizard.download, name="add-file"),
    path("clusters/add/watch/<str:token_id>/", wizard.watch, name="add-watch"),
    path("tokens/", tokens.token_list, name="tokens"),
    path("tokens/mint/", tokens.mint, name="mint"),
    path("tokens/<str:token_id>/revoke/", tokens.revoke, name="revoke-token"),
    path("policies/", policies.policy_list, name="policies"),
    path("policies/-/new/", policies.create, name="new-policy"),
    path("policies/<str:name>/", policies.policy_detail, name="policy"),
    path("policies/<str:name>/edit/", policies.edit, name="edit-policy"),
    path("policies/<str:name>/switch/", policies.switch, name="switch-policy"),
    path("policies/<str:name>/delete/", policies.delete, name="delete-policy"),
    path("clusters/<str:name>/disconnect/", disconnect.disconnect, name="disconnect"),
    path("clusters/<str:name>/reconnect/", disconnect.reconnect, name="reconnect"),
]
