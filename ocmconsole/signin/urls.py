"""Routes of signing in and of one's account. Names that begin with ``account_``, ``mfa_`` and so on are allauth's."""

from __future__ import annotations

from allauth.account import views as account
from allauth.mfa.base import views as factors
from allauth.mfa.recovery_codes import views as recovery
from allauth.mfa.totp import views as app
from allauth.mfa.webauthn import views as passkeys
from allauth.socialaccount import views as social
from django.conf import settings
from django.urls import path

from ocmconsole.signin import lifetime, stepup, views

# Whatever adds, changes, removes or shows what signs somebody in (stepup.FACTORS).
FACTORS = [
    ("app/activate/", app.activate_totp, "mfa_activate_totp"),
    ("app/deactivate/", app.deactivate_totp, "mfa_deactivate_totp"),
    ("passkeys/add/", passkeys.add_webauthn, "mfa_add_webauthn"),
    ("passkeys/keys/<int:pk>/edit/", passkeys.edit_webauthn, "mfa_edit_webauthn"),
    ("passkeys/keys/<int:pk>/remove/", passkeys.remove_webauthn, "mfa_remove_webauthn"),
    ("recovery/", recovery.view_recovery_codes, "mfa_view_recovery_codes"),
    ("recovery/generate/", recovery.generate_recovery_codes, "mfa_generate_recovery_codes"),
    ("recovery/download/", recovery.download_recovery_codes, "mfa_download_recovery_codes"),
]

urlpatterns = [
    path("login/", views.SignIn.as_view(), name="login"),
    path("login/", views.SignIn.as_view(), name="account_login"),
    path("login/inactive/", account.account_inactive, name="account_inactive"),
    path("login/second/", factors.authenticate, name="mfa_authenticate"),
    path("login/again/", account.reauthenticate, name="account_reauthenticate"),
    path("login/again/code/", factors.reauthenticate, name="mfa_reauthenticate"),
    path("login/again/go-on/", stepup.carry_on, name="carry_on"),
    path("logout/", account.logout, name="logout"),
    path("logout/", account.logout, name="account_logout"),
    path("admin/logout/", account.logout),
    path("session/", lifetime.state, name="session"),
    path("session/extend/", lifetime.extend, name="session_extend"),
    path("account/", views.AccountView.as_view(), name="account"),
    path("account/", views.AccountView.as_view(), name="mfa_index"),
    path("account/password/", views.ChangePassword.as_view(), name="account_change_password"),
    *(path(f"account/{place}", view, name=name) for place, view, name in FACTORS),
    path("account/passkeys/", passkeys.list_webauthn, name="mfa_list_webauthn"),
    path("account/passkeys/login/", passkeys.login_webauthn, name="mfa_login_webauthn"),
    path("account/passkeys/reauthenticate/", passkeys.reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"),
    path("account/sessions/", views.browsers, name="sessions"),
]

if settings.OCMCONSOLE_OIDC_ISSUER:
    from ocmconsole.signin import single_sign_on

    # One provider: its id is part of the address, so that another issuer's accounts are never taken for its own.
    place, provider = f"login/sso/{settings.OCMCONSOLE_OIDC_ID}", {"provider_id": settings.OCMCONSOLE_OIDC_ID}
    urlpatterns += [
        path("login/sso/", single_sign_on.leave, name="sso"),
        path("login/sso/cancelled/", social.login_cancelled, name="socialaccount_login_cancelled"),
        path(f"{place}/", single_sign_on.leave, provider, name="openid_connect_login"),
        path(f"{place}/back/", single_sign_on.back, provider, name="openid_connect_callback"),
    ]
