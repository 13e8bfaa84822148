"""Settings: every value comes from the environment through a typed reader that refuses nonsense at start.

Names and defaults are those of docs/settings.md. Without any of them one process serves everything from SQLite in
``var``; with a database and Redis the same code runs as many processes.
"""

from __future__ import annotations

import os
import re
import secrets
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import dj_database_url
import django_stubs_ext
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from ocmconsole import logs
from ocmconsole.corekinds import home as files
from ocmconsole.durations import parse_duration
from ocmconsole.proxy import Proxies

django_stubs_ext.monkeypatch()  # lets Field, ModelAdmin and views be written with the types they hold

LAST_PORT = 65_535
SHORTEST_SECRET = 32
SHORTEST_RETENTION = timedelta(days=30)
UNIX = "unix:"
ROOT = Path(__file__).resolve().parent.parent

RESOURCE = re.compile(r"([a-z0-9-]+(\.[a-z0-9-]+)*)?/v[a-z0-9]+/[a-z0-9]+")
UPSTREAM_GATES = {
    "DefaultClusterSet": True,
    "ResourceCleanup": True,
    "ManagedClusterAutoApproval": False,
    "V1beta1CSRAPICompatibility": False,
}
NOT_BUILT = {
    "ClusterProfile": "ClusterProfile objects are not served",
    "ClusterImporter": "the Cluster API importer is not built",
}


# ---------------------------------------------------------------- readers


def text(name: str, default: str = "") -> str:
    """A variable, or the content of the file that ``<name>_FILE`` names."""
    if path := os.environ.get(f"{name}_FILE"):
        return Path(path).read_text(encoding="utf-8").strip()
    return os.environ.get(name, default)


def flag(name: str, *, default: bool) -> bool:
    value = text(name, "true" if default else "false").lower()
    if value not in {"true", "false"}:
        msg = f"{name} must be true or false, not {value!r}"
        raise ImproperlyConfigured(msg)
    return value == "true"


def choice(name: str, default: str, allowed: set[str]) -> str:
    value = text(name, default)
    if value not in allowed:
        msg = f"{name} must be one of {', '.join(sorted(allowed))}, not {value!r}"
        raise ImproperlyConfigured(msg)
    return value


def duration(name: str, default: str) -> timedelta:
    try:
        return parse_duration(text(name, default))
    except ImproperlyConfigured as error:
        msg = f"{name}: {error}"
        raise ImproperlyConfigured(msg) from error


def retention(name: str) -> timedelta | None:
    """How long to keep something, at least a month; None is for ever."""
    if not text(name):
        return None
    found = duration(name, "")
    if found < SHORTEST_RETENTION:
        msg = f"{name} must be at least {SHORTEST_RETENTION.days}d, or empty to keep everything"
        raise ImproperlyConfigured(msg)
    return found


def listed(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def address(name: str, default: str) -> tuple[str, int]:
    """Host and port; a Unix socket is ``unix:/path`` with port 0."""
    value = text(name, default)
    if value.startswith(UNIX):
        return value, 0
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit() or int(port) > LAST_PORT:
        msg = f"{name} must be host:port or unix:/path, not {value!r}"
        raise ImproperlyConfigured(msg)
    return host.strip("[]"), int(port)


def url(name: str, default: str) -> str:
    value = text(name, default).rstrip("/")
    if urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname:
        msg = f"{name} must be a http(s) URL, not {value!r}"
        raise ImproperlyConfigured(msg)
    return value


def gates(name: str) -> dict[str, bool]:
    """Feature gates as upstream writes them: ``DefaultClusterSet=true,ResourceCleanup=false`` (ocm.md 3.12)."""
    found = dict(UPSTREAM_GATES)
    for part in listed(name):
        gate, _, value = part.partition("=")
        if gate in NOT_BUILT and value.lower() == "true":
            msg = f"{name}: {gate} cannot be switched on: {NOT_BUILT[gate]}"
            raise ImproperlyConfigured(msg)
        if gate not in {*UPSTREAM_GATES, *NOT_BUILT} or value.lower() not in {"true", "false"}:
            msg = f"{name}: {part!r} is not a known gate with =true or =false"
            raise ImproperlyConfigured(msg)
        found[gate] = value.lower() == "true"
    return found


def resources(name: str, default: str) -> list[str]:
    """Types of objects as upstream writes them: ``group/version/resource``, the group of core being empty."""
    found = listed(name, default)
    for entry in found:
        if not RESOURCE.fullmatch(entry):
            msg = f"{name} must be group/version/resource, not {entry!r}"
            raise ImproperlyConfigured(msg)
    return found


def pairs(name: str) -> dict[str, str]:
    found = {}
    for part in listed(name):
        key, separator, value = part.partition("=")
        if not separator or not key:
            msg = f"{name} must be key=value,…, not {part!r}"
            raise ImproperlyConfigured(msg)
        found[key] = value
    return found


def kept_secret(home: Path, file: str) -> str:
    """A secret that is made once and kept in the home, readable by its owner only."""
    path = home / file
    with files.locked(home):
        if not path.exists():
            files.write(path, secrets.token_urlsafe(48).encode(), secret=True)
    return path.read_text(encoding="ascii").strip()


def proxies(places: list[str], secret: str) -> Proxies:
    """Whom to believe about clients. An address alone proves nothing: other programs of that machine have it too."""
    try:
        networks = tuple(ip_network(place) for place in places)
    except ValueError as error:
        msg = f"OCMCONSOLE_TRUSTED_PROXY must be addresses or networks, such as 10.0.0.5,10.1.0.0/24: {error}"
        raise ImproperlyConfigured(msg) from error
    if bool(networks) != bool(secret):
        msg = "OCMCONSOLE_TRUSTED_PROXY and OCMCONSOLE_PROXY_SECRET are set together or not at all"
        raise ImproperlyConfigured(msg)
    if secret and len(secret) < SHORTEST_SECRET:
        msg = f"OCMCONSOLE_PROXY_SECRET must have at least {SHORTEST_SECRET} characters"
        raise ImproperlyConfigured(msg)
    return Proxies(networks, secret)


def issuer(name: str) -> str:
    """An OpenID provider. What it says over plain HTTP anybody on the way could say."""
    value = url(name, "") if text(name) else ""
    if value and not value.startswith("https:") and urlsplit(value).hostname not in {"localhost", "127.0.0.1", "::1"}:
        msg = f"{name} must be a https URL, not {value!r}"
        raise ImproperlyConfigured(msg)
    return value


def derived(scheme: str, place: tuple[str, int]) -> str:
    """The URL of an address; a Unix socket has none, so it must be said."""
    host, port = place
    if host.startswith(UNIX):
        return ""
    return f"{scheme}://{'127.0.0.1' if host in {'0.0.0.0', '::'} else host}:{port}"  # noqa: S104 - compared, not bound


# ---------------------------------------------------------------- ocmconsole

OCMCONSOLE_HOME = Path(text("OCMCONSOLE_HOME", str(ROOT / "var"))).absolute()
OCMCONSOLE_API_ADDRESS = address("OCMCONSOLE_API_ADDRESS", "127.0.0.1:6443")
OCMCONSOLE_CONSOLE_ADDRESS = address("OCMCONSOLE_CONSOLE_ADDRESS", "127.0.0.1:8000")
OCMCONSOLE_API_URL = url("OCMCONSOLE_API_URL", derived("https", OCMCONSOLE_API_ADDRESS))
OCMCONSOLE_CONSOLE_URL = url("OCMCONSOLE_CONSOLE_URL", derived("http", OCMCONSOLE_CONSOLE_ADDRESS))
OCMCONSOLE_HUB_NAME = text("OCMCONSOLE_HUB_NAME", OCMCONSOLE_API_URL.partition("://")[2])
OCMCONSOLE_ENVIRONMENT = text("OCMCONSOLE_ENVIRONMENT")
OCMCONSOLE_DATABASE_URL = text("OCMCONSOLE_DATABASE_URL")
OCMCONSOLE_REDIS_URL = text("OCMCONSOLE_REDIS_URL")
OCMCONSOLE_CONTROLLERS = choice(
    "OCMCONSOLE_CONTROLLERS", "celery" if OCMCONSOLE_REDIS_URL else "thread", {"thread", "celery", "inline"}
)
OCMCONSOLE_SECRET_KEY = text("OCMCONSOLE_SECRET_KEY") or kept_secret(OCMCONSOLE_HOME, "secret-key")
OCMCONSOLE_ADMIN_PASSWORD = text("OCMCONSOLE_ADMIN_PASSWORD")
OCMCONSOLE_CERT_LIFETIME = duration("OCMCONSOLE_CERT_LIFETIME", "365d")
OCMCONSOLE_CLIENT_CA_FILE = text("OCMCONSOLE_CLIENT_CA_FILE")
OCMCONSOLE_CSR_SIGNER = choice("OCMCONSOLE_CSR_SIGNER", "internal", {"internal", "external"})
OCMCONSOLE_TRUSTED_PROXIES = proxies(listed("OCMCONSOLE_TRUSTED_PROXY"), text("OCMCONSOLE_PROXY_SECRET"))
OCMCONSOLE_OIDC_ISSUER = issuer("OCMCONSOLE_OIDC_ISSUER")
OCMCONSOLE_OIDC_CLIENT_ID = text("OCMCONSOLE_OIDC_CLIENT_ID")
OCMCONSOLE_OIDC_CLIENT_SECRET = text("OCMCONSOLE_OIDC_CLIENT_SECRET")
OCMCONSOLE_OIDC_NAME = text("OCMCONSOLE_OIDC_NAME", urlsplit(OCMCONSOLE_OIDC_ISSUER).hostname or "")
# Part of the address that the provider returns to, and of what accounts are found by.
OCMCONSOLE_OIDC_ID = re.sub(r"[^a-z0-9]+", "-", OCMCONSOLE_OIDC_ISSUER.partition("://")[2].lower())
if bool(OCMCONSOLE_OIDC_ISSUER) != bool(OCMCONSOLE_OIDC_CLIENT_ID):
    raise ImproperlyConfigured("OCMCONSOLE_OIDC_ISSUER and OCMCONSOLE_OIDC_CLIENT_ID are set together or not at all")
OCMCONSOLE_SESSION_IDLE = duration("OCMCONSOLE_SESSION_IDLE", "1h")
OCMCONSOLE_SESSION_LIFETIME = duration("OCMCONSOLE_SESSION_LIFETIME", "24h")
OCMCONSOLE_LOG_FORMAT = choice("OCMCONSOLE_LOG_FORMAT", "text", {"text", "json"})
OCMCONSOLE_FEATURE_GATES = gates("OCMCONSOLE_FEATURE_GATES")
OCMCONSOLE_AUTO_APPROVED_USERS = listed("OCMCONSOLE_AUTO_APPROVED_USERS")
OCMCONSOLE_RESOURCE_LABELS = pairs("OCMCONSOLE_RESOURCE_LABELS")
OCMCONSOLE_GC_RESOURCES = resources(
    "OCMCONSOLE_GC_RESOURCES",
    "addon.open-cluster-management.io/v1beta1/managedclusteraddons,work.open-cluster-management.io/v1/manifestworks",
)
OCMCONSOLE_GUARD_DISCONNECT = flag("OCMCONSOLE_GUARD_DISCONNECT", default=True)
OCMCONSOLE_ALLOW_CLUSTER_NAMESPACE_BINDING = flag("OCMCONSOLE_ALLOW_CLUSTER_NAMESPACE_BINDING", default=False)
OCMCONSOLE_ALLOW_REKEY = flag("OCMCONSOLE_ALLOW_REKEY", default=False)
OCMCONSOLE_AUDIT_RETENTION = retention("OCMCONSOLE_AUDIT_RETENTION")
AUDIT_KEY = kept_secret(OCMCONSOLE_HOME, "audit-key")

# ---------------------------------------------------------------- Django

SECRET_KEY = OCMCONSOLE_SECRET_KEY
DEBUG = False
ALLOWED_HOSTS = ["*"]  # the console's middleware compares with OCMCONSOLE_CONSOLE_URL; API clients send any name
CSRF_TRUSTED_ORIGINS = [OCMCONSOLE_CONSOLE_URL]
APPEND_SLASH = False  # wire.md 0, trap 5: no redirects
ROOT_URLCONF = "ocmconsole.urls"
WSGI_APPLICATION = None
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
USE_I18N = False

INSTALLED_APPS = [
    "ocmconsole.apps.ConsoleConfig",
    "ocmconsole.kubeapi",
    "ocmconsole.corekinds",
    "clusters",
    "clustersets",
    "registration",
    "guardian",
    "django_htmx",
    "rest_framework",
    "template_partials",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.usersessions",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
if OCMCONSOLE_OIDC_ISSUER:
    INSTALLED_APPS += ["allauth.socialaccount.providers.openid_connect"]

MIDDLEWARE = [
    "ocmconsole.listeners.ListenerMiddleware",
    "ocmconsole.requests.RequestMiddleware",
    "ocmconsole.compression.CompressionMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "ocmconsole.signin.lifetime.LifetimeMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "ocmconsole.views.shell",
            ],
            "builtins": ["ocmconsole.templatetags.console"],
        },
    }
]

DATABASES = {
    "default": {
        **dj_database_url.parse(OCMCONSOLE_DATABASE_URL or f"sqlite:///{OCMCONSOLE_HOME / 'hub.sqlite3'}"),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": bool(OCMCONSOLE_DATABASE_URL),
    }
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 30,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;",
    }

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": OCMCONSOLE_REDIS_URL}
    if OCMCONSOLE_REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
    "ocmconsole.corekinds.backends.RbacBackend",
]
ANONYMOUS_USER_NAME = None  # guardian: no database user stands for nobody
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"

ACCOUNT_ADAPTER = "ocmconsole.signin.adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"  # the hub sends no mail
ACCOUNT_UNIQUE_EMAIL = False  # an address proves nothing here
ACCOUNT_FORMS = {
    "login": "ocmconsole.signin.forms.SignInForm",
    "change_password": "ocmconsole.signin.forms.PasswordForm",
    "reauthenticate": "ocmconsole.signin.forms.ConfirmForm",
}
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
# Counted in the cache, so over all processes only with Redis. Each is a number a minute (errorpages.LIMIT), but one.
ACCOUNT_RATE_LIMITS = {
    "login": "60/m/ip",
    "login_failed": "10/m/ip,5/5m/key",
    "change_password": "5/m/user",
    "reauthenticate": "10/m/user",
}
ACCOUNT_SESSION_REMEMBER = False
MFA_ADAPTER = "ocmconsole.signin.adapters.SecondFactors"
MFA_SUPPORTED_TYPES = ["webauthn", "totp", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_TOLERANCE = 1
MFA_FORMS = {
    "authenticate": "ocmconsole.signin.forms.CodeForm",
    "reauthenticate": "ocmconsole.signin.forms.ConfirmCodeForm",
    "activate_totp": "ocmconsole.signin.forms.AppForm",
    "add_webauthn": "ocmconsole.signin.forms.AddPasskeyForm",
    "edit_webauthn": "ocmconsole.signin.forms.RenamePasskeyForm",
    "login_webauthn": "ocmconsole.signin.forms.PasskeyForm",
    "authenticate_webauthn": "ocmconsole.signin.forms.SecondPasskeyForm",
    "reauthenticate_webauthn": "ocmconsole.signin.forms.ConfirmPasskeyForm",
}
USERSESSIONS_ADAPTER = "ocmconsole.signin.adapters.Sessions"
SOCIALACCOUNT_ADAPTER = "ocmconsole.signin.adapters.SingleSignOn"
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": OCMCONSOLE_OIDC_ID,
                "name": OCMCONSOLE_OIDC_NAME,
                "client_id": OCMCONSOLE_OIDC_CLIENT_ID,
                "secret": OCMCONSOLE_OIDC_CLIENT_SECRET,
                "settings": {"server_url": OCMCONSOLE_OIDC_ISSUER},
            }
        ]
        if OCMCONSOLE_OIDC_ISSUER
        else [],
    }
}

SESSION_COOKIE_NAME = "ocmconsole_session"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = int(OCMCONSOLE_SESSION_LIFETIME.total_seconds())  # signin.lifetime ends it sooner
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = OCMCONSOLE_CONSOLE_URL.startswith("https:")
CSRF_COOKIE_NAME = "ocmconsole_csrf"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if SESSION_COOKIE_SECURE else 0
CSRF_FAILURE_VIEW = "ocmconsole.errorpages.csrf_failure"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}

STATIC_URL = "/static/"
STATIC_ROOT = None  # served by whitenoise from static itself, in development and production alike
STATICFILES_DIRS = [ROOT / "static"]
WHITENOISE_USE_FINDERS = True

DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

REST_FRAMEWORK: dict[str, object] = {
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
}

LOGGING = logs.config(OCMCONSOLE_LOG_FORMAT)
