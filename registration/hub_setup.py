"""What a hub needs before it serves: tables, its CA, the first admin, the objects of a fresh OCM hub (H1, H2, H23).

Run at every start; a second run writes nothing. Servers that start together do it one after the other.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_permission_codename
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import Error as DatabaseFailure
from django.db import connection

from clustersets.profiles import profile_reconcilers
from clustersets.reconcilers import SELECTORS, reconcile_standing_set
from ocmconsole.accounts import people, permissions
from ocmconsole.core import defaults, reconcilers
from ocmconsole.core.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, SERVICE_ACCOUNT
from ocmconsole.core.models import Namespace
from ocmconsole.core.tokens import tokens
from ocmconsole.environment import home as files
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access.actor import MASTERS, Actor
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.health import probes
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.storage import database_clock, incarnations, reader
from registration.models import HubAddress
from registration.pki import ca, kubeconfigs

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import AuditEvent

log = logging.getLogger(__name__)

ADMIN = "admin"
ADMIN_LIFETIME = timedelta(days=365)  # of the first admin's certificate
PREPARING = int.from_bytes(b"ocm prep")  # an advisory lock of PostgreSQL, one a database
LOOK_SECONDS = 0.2  # between two looks at it
BOOTSTRAP = "open-cluster-management:bootstrap"
NAMESPACE = "open-cluster-management"
BOOTSTRAP_ACCOUNT = "agent-registration-bootstrap"
RBAC = "rbac.authorization.k8s.io"
CONTROLLER = Actor.controller("foundation")
PERMISSION = ("content_type__app_label", "content_type__model", "codename")

# H2; the agent finds its own way only with exactly these.
BOOTSTRAP_RULES: list[Doc] = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "list", "watch"],
    },
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclusters"],
        "verbs": ["get", "create", "list", "watch"],
    },
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclustersets/join"],
        "verbs": ["create"],
    },
]


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """No other server prepares this database meanwhile: of two that migrate at once one fails. SQLite has one server.

    Waits as long as another one takes. Raises errors of the database.
    """
    if connection.vendor != "postgresql":
        yield
        return
    while not _answered("SELECT pg_try_advisory_lock(%s)"):
        time.sleep(LOOK_SECONDS)
    try:
        yield
    finally:
        with suppress(DatabaseFailure):  # it ends with its session
            _answered("SELECT pg_advisory_unlock(%s)")


def _answered(statement: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, [PREPARING])
        (answer,) = cursor.fetchone()
        return bool(answer)


def migrate() -> None:
    """Django's migrate, where it has something to do: it takes 0.1 s of CPU time to find that there is nothing.

    It ends with rows for all permissions. If it was cut off before that, no migration is missing, and they are.
    """
    if probes.unapplied() or _permissions() - set(Permission.objects.values_list(*PERMISSION)):
        call_command("migrate", verbosity=0)


def _permissions() -> set[tuple[str, ...]]:
    """What the models declare, in the columns of ``PERMISSION``."""
    return {
        (options.app_label, str(options.model_name), name)
        for model in apps.get_models()
        for options in (model._meta,)  # noqa: SLF001 - Django's documented API
        for name in (
            *(get_permission_codename(act, options) for act in options.default_permissions),
            *(name for name, _ in options.permissions),
        )
    }


def ensure_hub() -> str:
    """Bring home and database to where a hub can serve.

    Returns the password that was generated for the first admin, empty when there was an admin or a chosen password.
    Raises AuthorityError, and Unreadable where the keys of what the database holds encrypted are missing.
    """
    home, names = settings.OCMCONSOLE_HOME, serving_names()
    # On PostgreSQL a start takes the addresses of others from no certificate, nor the key; servers of SQLite are on one
    # machine, and what they listen at besides is put in again within seconds (``Presence``).
    others = ca.further_addresses(home, names) if connection.vendor == "postgresql" else []
    _ensure_authority([*names, *others])
    stored_text.newest()  # made now, or missing now, rather than in somebody's write
    _check_client_cas()
    incarnations.ensure_first()
    defaults.ensure_defaults(CONTROLLER)
    _ensure_registration_objects()
    for name in SELECTORS:
        reconcile_standing_set(Key("", name))
    profile_reconcilers.queue_all()
    return _ensure_admin(home)


def add_address(actor: Actor, url: str) -> None:
    """Name the host of a URL in the serving certificate, which new connections are served with at once.

    Agents are given this URL where the configured one leads nowhere from another machine. Adding it again changes
    nothing. Raises Forbidden unless the actor is an admin, AuthorityError for a host that no certificate can name.
    """
    ca.check_name(urlsplit(url).hostname or "")

    def add(actor: Actor) -> None:
        _require_address_right(actor, "added")
        values = {"added_by": actor.user, "added_at": clock.now()}
        with verbs.while_permitted(actor):
            if HubAddress.objects.get_or_create(url=url, defaults=values)[1]:
                _address_entry(actor, "create", url, {"path": "url", "new": url}).save()

    verbs.with_present_rights(actor, add)
    keep_serving_certificate()


def remove_address(actor: Actor, url: str) -> None:
    """The reverse of ``add_address``: the serving certificate names the host only if something else does.

    Raises Forbidden unless the actor is an admin, NotFound.
    """

    def remove(actor: Actor) -> None:
        _require_address_right(actor, "removed")
        with verbs.while_permitted(actor):
            if not HubAddress.objects.filter(url=url).delete()[0]:
                raise errors.not_found("", "hubaddresses", url)
            _address_entry(actor, "delete", url, {"path": "url", "old": url}).save()

    verbs.with_present_rights(actor, remove)
    # For no other name; what other servers listen at they put in again.
    _ensure_authority(serving_names())


def keep_serving_certificate() -> None:
    """Issue the serving certificate of this home anew where it is not in order for the names of the hub.

    Called after each change of the names, and by each server from time to time, for changes made through other servers
    and for its renewal. Raises AuthorityError.
    """
    names, home = serving_names(), settings.OCMCONSOLE_HOME
    if not ca.is_served(home, names):
        _ensure_authority([*names, *ca.further_addresses(home, names)])


def _ensure_authority(names: list[str]) -> None:
    """A certificate that is issued now has begun for clients also where this server's clock is ahead of the others'."""
    ca.ensure_authority(settings.OCMCONSOLE_HOME, names, now=database_clock.earliest())


def follow_authorities() -> None:
    """What follows from a change of the hub's CAs: serving certificate, what is published, the admin's kubeconfig.

    Doing it again changes nothing. Raises AuthorityError.
    """
    keep_serving_certificate()
    keep_published()
    _ensure_admin(settings.OCMCONSOLE_HOME)


def keep_published() -> None:
    """Each namespace and cluster-info say by which CAs the hub is known (W26, W27), also after these have changed.

    Namespaces get theirs from their reconciler; of one that every hub has it is seen whether they need to.
    """
    if not (row := reader.read_row(CONFIG_MAP, Key("kube-public", reconcilers.ROOT_CA))):
        return  # before the first start is over
    if row.doc.get("data") != {"ca.crt": tokens.ca_certificate()}:
        names = Namespace.objects.filter(deleted_at=None).values_list("name", flat=True)
        workqueue.put({("namespace", Key("", name)) for name in names}, clock.now())
        workqueue.poke()
        _ensure_registration_objects()


def _require_address_right(actor: Actor, done: str) -> None:
    if not actor.is_master:
        raise errors.Forbidden(f"an address of the hub is {done} by its admins")


def _address_entry(actor: Actor, verb: str, url: str, change: Doc) -> AuditEvent:
    return permissions.audit_entry(
        actor, f"hubaddress:{verb}", permissions.AuditTarget("", "hubaddresses", url, ""), diff=[change]
    )


def serving_names() -> list[str]:
    """Names and addresses in the serving certificate: as configured, and those that were added in the console."""
    listening = settings.OCMCONSOLE_API_ADDRESS[0]
    urls = [settings.OCMCONSOLE_API_URL, *HubAddress.objects.values_list("url", flat=True)]
    hosts = ["" if listening.startswith("unix:") else listening, *(urlsplit(url).hostname or "" for url in urls)]
    return sorted({host for host in (*hosts, "localhost", "127.0.0.1", "::1") if host not in {"", "0.0.0.0", "::"}})  # noqa: S104 - compared, not bound


def _check_client_cas() -> None:
    """The file of further CAs can be read and holds CAs. Raises AuthorityError."""
    if not (path := settings.OCMCONSOLE_CLIENT_CA_FILE):
        return
    try:
        _ = ca.Roots(hub=ca.client_file(settings.OCMCONSOLE_HOME).read_bytes(), others=Path(path).read_bytes()).anchors
    except (OSError, ValueError) as error:
        raise ca.AuthorityError(f"OCMCONSOLE_CLIENT_CA_FILE={path}: {error}") from error


def shown_home() -> str:
    """The home as a person types it."""
    home = settings.OCMCONSOLE_HOME
    return str(home.relative_to(Path.cwd())) if home.is_relative_to(Path.cwd()) else str(home)


def _ensure_registration_objects() -> None:
    _keep(CLUSTER_ROLE, "", {"metadata": {"name": BOOTSTRAP}, "rules": BOOTSTRAP_RULES})
    _keep(SERVICE_ACCOUNT, NAMESPACE, {"metadata": {"name": BOOTSTRAP_ACCOUNT}})
    group = {"kind": "Group", "apiGroup": RBAC, "name": "system:bootstrappers:managedcluster"}
    account = {"kind": "ServiceAccount", "name": BOOTSTRAP_ACCOUNT, "namespace": NAMESPACE}
    for name, subject in (("managedcluster", group), ("agent-registration", account)):
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": BOOTSTRAP}
        _keep(
            CLUSTER_ROLE_BINDING,
            "",
            {"metadata": {"name": f"{BOOTSTRAP}:{name}"}, "roleRef": reference, "subjects": [subject]},
        )
    info = kubeconfigs.kubeconfig(settings.OCMCONSOLE_API_URL, user="", credential={}, cluster="")
    _keep(CONFIG_MAP, "kube-public", {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": info}})


def _keep(kind: Kind, namespace: str, wanted: Doc) -> None:
    """Create an object or bring its content back to what is wanted; metadata of others stays."""
    key = Key(namespace, wanted["metadata"]["name"])
    if reader.read_row(kind, key) is None:
        typed = {"apiVersion": kind.storage.api_version, "kind": kind.kind}
        verbs.create(CONTROLLER, kind, {**typed, **wanted}, namespace=namespace)
        return
    content = {name: part for name, part in wanted.items() if name != "metadata"}
    verbs.edit(CONTROLLER, kind, key, lambda doc: doc.update(content))


def _ensure_admin(home: Path) -> str:
    """The first superuser, with a password and a kubeconfig, both readable by their owner only.

    Returns the password where it was generated now, else an empty text.
    """
    generated = ""
    if not User.objects.filter(is_superuser=True).exists():
        generated = "" if settings.OCMCONSOLE_ADMIN_PASSWORD else secrets.token_urlsafe(18)
        password = settings.OCMCONSOLE_ADMIN_PASSWORD or generated
        admin = User(
            username=ADMIN,
            password=make_password(password),
            is_staff=True,
            is_superuser=True,
            date_joined=clock.now(),
        )
        people.save_user(CONTROLLER, admin)
        files.write_file(home / "admin-password", f"{password}\n".encode(), secret=True)
    path = home / "admin.kubeconfig"
    if not _is_current(path, home):
        try:
            text = kubeconfigs.of_user(CONTROLLER, ADMIN, groups=(MASTERS,), lifetime=ADMIN_LIFETIME)
        except ca.KeyAwayError as error:  # a hub goes on without it
            log.warning("admin.kubeconfig is not made anew: %s", error)
        else:
            files.write_file(path, text.encode(), secret=True)
    return generated


def _is_current(path: Path, home: Path) -> bool:
    """A kubeconfig of these CAs and this address that lasts another month."""
    return path.exists() and kubeconfigs.is_usable(path.read_text(encoding="utf-8"), home)
