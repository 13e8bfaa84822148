"""People at the command line: what is done there is in the audit too."""

from __future__ import annotations

import getpass

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from ocmconsole.kubeapi.models import AuditEvent

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D11")]


def acts() -> list[tuple[str, str, str, str]]:
    return list(AuditEvent.objects.order_by("pk").values_list("outcome", "act", "name", "entry_point"))


def test_a_superuser_made_at_the_command_line_is_in_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "long enough for this")
    call_command("createsuperuser", interactive=False, username="root", email="root@example.com", verbosity=0)
    assert User.objects.get(username="root").is_superuser
    assert acts() == [("allowed", "user:create", "root", "cli")]


def test_a_password_set_at_the_command_line_is_in_the_audit_without_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    User.objects.create_user("ana", password="the old words")
    monkeypatch.setattr(getpass, "getpass", lambda *_, **__: "seven new words here")
    call_command("changepassword", "ana")
    assert User.objects.get(username="ana").check_password("seven new words here")
    assert acts() == [("allowed", "user:update", "ana", "cli")]
    assert AuditEvent.objects.get().diff == [{"path": "password"}]


def test_lost_second_factors_are_forgotten_by_who_may_change_the_account() -> None:
    User.objects.create_superuser("admin")
    raj, ana = User.objects.create_user("raj"), User.objects.create_user("ana")
    Authenticator.objects.create(user=ana, type=Authenticator.Type.TOTP, data={})
    with pytest.raises(CommandError, match="lacks the permission"):
        call_command("forget_passkeys", "ana", "--as", raj.username)
    call_command("forget_passkeys", "ana")
    assert not Authenticator.objects.exists()
    assert acts() == [("denied", "user:update", "ana", "cli"), ("allowed", "user:update", "ana", "cli")]
    with pytest.raises(CommandError, match="no user"):
        call_command("forget_passkeys", "nobody")
