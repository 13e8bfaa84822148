"""``manage.py ca status|rotate|retire``: the hub's CAs and their rotation, as the named person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import CommandError

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.environment import installation
from registration.certificates import ca_rotation, stolen_ca
from registration.certificates.ca_rotation import Progress
from registration.pki import ca

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor

BACKUP = "Make a backup now: one from before does not have the new CA, and a hub restored from it would not know it."
RELOAD = "Behind a proxy: copy serving.crt, serving.key and ca.crt of the home to it, and reload it (nginx -s reload)."


class Command(ActingCommand):
    help = "Shows the CAs of the hub, lets new ones take their place, and retires the old ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="step", required=True)
        roles = [role.value for role in ca.AuthorityRole]
        super().add_arguments(acts.add_parser("status", help="how far a rotation has come, and who is left"))
        rotate = acts.add_parser("rotate", help="let a new CA sign; the present one is trusted beside it")
        rotate.add_argument("role", choices=roles)
        rotate.add_argument("--back", action="store_true", help="let the old CA sign again")
        rotate.add_argument(
            "--key",
            default="",
            metavar="PLACE",
            help="where the key of the new CA is: the URI of one in a token, pkcs11:token=…;object=…, or file",
        )
        stolen = "the key of the present CA was stolen: trust the new one alone, and revoke all client certificates"
        rotate.add_argument("--stolen", action="store_true", help=stolen)
        rotate.add_argument("--yes", action="store_true", help="do not ask before --stolen")
        super().add_arguments(rotate)
        retire = acts.add_parser("retire", help="trust only the CA that signs")
        retire.add_argument("role", choices=roles)
        retire.add_argument("--force", action="store_true", help="also where somebody is left, who loses the hub")
        super().add_arguments(retire)

    def act(self, actor: Actor, *args: Any, step: str, role: str = "", **options: Any) -> None:
        chosen = ca.AuthorityRole(role) if role else None
        try:
            if chosen is None:
                ca_rotation.require_admin(actor)
            else:
                self._take(actor, step, chosen, **options)
            self._show(*([chosen] if chosen else ca.AuthorityRole))
        except ca.AuthorityError as error:
            raise CommandError(str(error)) from error

    def _take(self, actor: Actor, step: str, role: ca.AuthorityRole, **options: Any) -> None:
        before = ca.key_places(settings.OCMCONSOLE_HOME)
        try:
            if step == "retire":
                ca_rotation.retire(actor, role, force=options["force"])
            elif options["back"] and (options["key"] or options["stolen"]):
                raise CommandError("--back lets the old CA sign, with its own key: leave out --key and --stolen")
            elif options["back"]:
                ca_rotation.turn_back(actor, role)
            elif options["stolen"]:
                self._replace_stolen(actor, role, **options)
            else:
                ca_rotation.rotate(actor, role, place=options["key"])
        except OSError as error:
            raise CommandError(
                f"the home cannot be written ({error.strerror or error}): make room or see to its modes, then look at "
                f"{installation.PROGRAM} ca status and take the step again if it was not done"
            ) from error
        if step == "rotate" and not (options["back"] or options["stolen"]):
            self.stdout.write(BACKUP)
        if role is ca.AuthorityRole.SERVING and not options.get("stolen"):
            self.stdout.write(RELOAD)
        for place in sorted({*before} - {*ca.key_places(settings.OCMCONSOLE_HOME)}):
            self.stdout.write(f"The hub has forgotten the key {place}, which is where it was: remove it there.")

    def _replace_stolen(self, actor: Actor, role: ca.AuthorityRole, *, key: str, yes: bool, **_: Any) -> None:
        ca_rotation.require_admin(actor)
        also_other = stolen_ca.shares_key()
        if not yes:
            self._confirm(role)
        ca_rotation.replace_stolen(actor, role, place=key)
        self.stdout.write(
            "Nothing that the stolen key has signed is trusted any more. To be done by hand, in this order:"
        )
        for number, text in enumerate(stolen_ca.by_hand(role, also_other=also_other), 1):
            self.stdout.write(f"  {number}. {text}")

    def _confirm(self, role: ca.AuthorityRole) -> None:
        """Raises CommandError; nothing is changed then."""
        is_client = role is ca.AuthorityRole.CLIENT
        what = "Every client certificate of the hub ends now" if is_client else "No agent knows the hub from now on"
        self.stdout.write(f"{what}, until somebody applies a manifest on each cluster. There is no way back.")
        try:
            said = input(f"Type {role} to go on: ")
        except EOFError:
            said = ""
        if said.strip() != role.value:
            raise CommandError(f"{role} was not typed, nor --yes given: nothing is changed")

    def _show(self, *roles: ca.AuthorityRole) -> None:
        for role in roles:
            self.stdout.write("\n".join(_lines(ca_rotation.progress_of(role))))


def _lines(found: Progress) -> list[str]:
    name, signs = f"CA of {'clients' if found.role is ca.AuthorityRole.CLIENT else 'serving'}", found.signs
    lines = [f"{name}: {found.phase}", f"  signs    {_shown(signs, found.places[0])}"]
    if found.other is None:
        return lines
    program = f"{installation.PROGRAM} ca"
    lines.append(f"  trusted  {_shown(found.other, found.places[1])}")
    if found.role is ca.AuthorityRole.CLIENT:
        lines.append(f"  clusters seen with a certificate of the CA that signs: {found.done}; left: {len(found.left)}")
    else:
        lines.append(f"  clusters given the CA that signs: {found.done}; not given: {len(found.left)}")
    for each in found.left:
        new = ", has a new one that was not seen yet" if each.has_new else ""
        what = "cluster" if each.is_cluster else "certificate of"
        ends = f", certificate ends {each.ends:%Y-%m-%d}" if found.role is ca.AuthorityRole.CLIENT else ""
        lines.append(f"    {what} {each.name}{ends}{new}")
    if found.removed:
        lines.append(f"  of removed clusters, which could not come back with their certificates: {found.removed}")
    back = f"; {program} rotate {found.role} --back rolls back" if found.phase is ca.Phase.ROTATING else ""
    on = f"; {program} rotate {found.role} goes on" if found.phase is ca.Phase.TURNED_BACK else ""
    lines.append(f"  {program} retire {found.role} ends it when nobody is left{back}{on}")
    return lines


def _shown(certificate: ca.Certificate, place: str) -> str:
    dates = f"{certificate.not_before:%Y-%m-%d} to {certificate.not_after:%Y-%m-%d}"
    key = f"{certificate.key_fingerprint}, {place}" if place else certificate.key_fingerprint
    return f"{certificate.common_name}, {dates}, key {key}"
