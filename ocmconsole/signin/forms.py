"""allauth's forms in the words of this console (ACCOUNT_FORMS, MFA_FORMS).

What a browser sends as a credential may be anything.
"""

from __future__ import annotations

import struct
from typing import Any

from allauth.account import forms as account
from allauth.core import context
from allauth.mfa.base import forms as base
from allauth.mfa.totp import forms as totp
from allauth.mfa.webauthn import forms as webauthn
from django import forms

from ocmconsole.signin import records

MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error)
ODD = "The browser sent no credential that can be read."


class Worded:
    """Labels in our words, and no placeholders: they vanish while one types."""

    labels: dict[str, str] = {}
    help_texts: dict[str, str] = {}
    fields: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.label = self.labels.get(name, field.label)
            field.help_text = self.help_texts.get(name, "")
            field.widget.attrs.pop("placeholder", None)


# ---------------------------------------------------------------- names, passwords, codes


class SignInForm(Worded, account.LoginForm):  # type: ignore[misc] # allauth carries no types
    labels = {"login": "User name"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget.attrs |= {"autocapitalize": "none", "spellcheck": "false", "autofocus": True}


class PasswordForm(Worded, account.ChangePasswordForm):  # type: ignore[misc]
    labels = {"oldpassword": "Current password", "password1": "New password", "password2": "New password again"}
    help_texts = {"password1": "At least 12 characters, and none of the common ones. Other sessions of yours end."}


class ConfirmForm(Worded, account.ReauthenticateForm):  # type: ignore[misc]
    pass


CODE = {"code": "Code of your app, or a recovery code"}


class CodeForm(Worded, base.AuthenticateForm):  # type: ignore[misc]
    labels = CODE


class ConfirmCodeForm(Worded, base.ReauthenticateForm):  # type: ignore[misc]
    labels = CODE


class AppForm(Worded, totp.ActivateTOTPForm):  # type: ignore[misc]
    labels = {"code": "Code that the app shows"}


# ---------------------------------------------------------------- passkeys


class AddPasskeyForm(Worded, webauthn.AddWebAuthnForm):  # type: ignore[misc]
    labels = {"name": "Name", "passwordless": "Sign in with it alone, without name and password"}
    help_texts = {"name": "Which device or key this is, so that you know it again."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["passwordless"].initial = True
        self.fields["name"].widget.attrs["maxlength"] = self.fields["name"].max_length = 80
        self.initial["name"] = "" if self.initial.get("name") == "Master key" else self.initial.get("name")

    def clean(self) -> Any:
        try:
            return super().clean()
        except MALFORMED as error:
            raise forms.ValidationError(ODD) from error


class RenamePasskeyForm(Worded, webauthn.EditWebAuthnForm):  # type: ignore[misc]
    pass


class Shown(Worded):
    """A passkey was shown, or something else."""

    def clean_credential(self) -> Any:
        try:
            return super().clean_credential()  # type: ignore[misc] # of the form that this is mixed into
        except (*MALFORMED, forms.ValidationError) as error:
            records.record_refusal(context.request, "the passkey was not accepted")
            raise forms.ValidationError("This was not accepted. Try again, or use another way.") from error


class PasskeyForm(Shown, webauthn.LoginWebAuthnForm):  # type: ignore[misc]
    pass


class SecondPasskeyForm(Shown, webauthn.AuthenticateWebAuthnForm):  # type: ignore[misc]
    pass


class ConfirmPasskeyForm(Shown, webauthn.ReauthenticateWebAuthnForm):  # type: ignore[misc]
    pass
