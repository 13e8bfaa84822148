"""Settings: every value comes from the environment through a typed reader that refuses nonsense at start (``readers``).

Names and defaults are those of docs/settings.md. Without any of them one process serves everything from SQLite in
``var``; with a database and Redis the same code runs as many processes.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import dj_database_url
import django_stubs_ext
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from ocmconsole.environment import home, home_swap
from ocmconsole.environment.installation import ROOT, default_home
from ocmconsole.environment.readers import (
    SHORTEST_CONNECT_TIMEOUT,
    address,
    choice,
    cleanup_rights,
    collector,
    derived,
    duration,
    flag,
    gates,
    headers,
    issuer,
    kept_secret,
    listed,
    mail_server,
    networks,
    number,
    pairs,
    path,
    proxies,
    resources,
    retention,
    second_approvals,
    share,
    signing_secrets,
    size,
    syslog,
    text,
    url,
    webhook,
)
from ocmconsole.kubeapi.watch import redis_client
from ocmconsole.server import intake, logs

django_stubs_ext.monkeypatch()  # lets Field, ModelAdmin and views be written with the types they hold

# ---------------------------------------------------------------- ocmconsole

OCMCONSOLE_HOME = Path(text("OCMCONSOLE_HOME", str(default_home()))).absolute()
try:
    home.refuse_root(OCMCONSOLE_HOME)  # before anything is written there
except home.HomeError as error:
    raise ImproperlyConfigured(str(error)) from error
OCMCONSOLE_API_ADDRESS = address("OCMCONSOLE_API_ADDRESS", "127.0.0.1:6443")
OCMCONSOLE_CONSOLE_ADDRESS = address("OCMCONSOLE_CONSOLE_ADDRESS", "127.0.0.1:8000")
OCMCONSOLE_API_URL = url("OCMCONSOLE_API_URL", derived("https", OCMCONSOLE_API_ADDRESS))
OCMCONSOLE_CONSOLE_URL = url("OCMCONSOLE_CONSOLE_URL", derived("http", OCMCONSOLE_CONSOLE_ADDRESS))
OCMCONSOLE_HUB_NAME = text("OCMCONSOLE_HUB_NAME", OCMCONSOLE_API_URL.partition("://")[2])
OCMCONSOLE_ENVIRONMENT = text("OCMCONSOLE_ENVIRONMENT")
OCMCONSOLE_DATABASE_URL = text("OCMCONSOLE_DATABASE_URL")
OCMCONSOLE_DATABASE_CONNECT_TIMEOUT = duration(
    "OCMCONSOLE_DATABASE_CONNECT_TIMEOUT", "3s", least=SHORTEST_CONNECT_TIMEOUT
)
OCMCONSOLE_DATABASE_LOCK_TIMEOUT = duration("OCMCONSOLE_DATABASE_LOCK_TIMEOUT", "10s")
OCMCONSOLE_DATABASE_STATEMENT_TIMEOUT = duration("OCMCONSOLE_DATABASE_STATEMENT_TIMEOUT", "30s")
home_swap.finish(OCMCONSOLE_HOME, OCMCONSOLE_DATABASE_URL)  # before its keys are read
OCMCONSOLE_GRACEFUL_TIMEOUT = duration("OCMCONSOLE_GRACEFUL_TIMEOUT", "10s")
OCMCONSOLE_DISK_RESERVE = size("OCMCONSOLE_DISK_RESERVE", "64Mi", least=4 * intake.MIB)
OCMCONSOLE_REDIS_URL = text("OCMCONSOLE_REDIS_URL")
OCMCONSOLE_CONTROLLERS = choice(
    "OCMCONSOLE_CONTROLLERS", "celery" if OCMCONSOLE_REDIS_URL else "thread", {"thread", "celery", "inline"}
)
OCMCONSOLE_SECRET_KEY = text("OCMCONSOLE_SECRET_KEY") or kept_secret(OCMCONSOLE_HOME, "secret-key")
OCMCONSOLE_ADMIN_PASSWORD = text("OCMCONSOLE_ADMIN_PASSWORD")
OCMCONSOLE_BACKUP_PASSPHRASE = text("OCMCONSOLE_BACKUP_PASSPHRASE")
OCMCONSOLE_BACKUP_KEY = text("OCMCONSOLE_BACKUP_KEY")
OCMCONSOLE_BACKUP_EVERY = duration("OCMCONSOLE_BACKUP_EVERY", "") if text("OCMCONSOLE_BACKUP_EVERY") else None
OCMCONSOLE_BACKUP_KEEP = number("OCMCONSOLE_BACKUP_KEEP", 14)
OCMCONSOLE_REVOCATIONS_RETENTION = duration("OCMCONSOLE_REVOCATIONS_RETENTION", "400d")
OCMCONSOLE_BACKUP_PLACE = path("OCMCONSOLE_BACKUP_PLACE")
if OCMCONSOLE_BACKUP_EVERY and not OCMCONSOLE_BACKUP_PLACE:
    raise ImproperlyConfigured("OCMCONSOLE_BACKUP_EVERY needs a folder for the backups: set OCMCONSOLE_BACKUP_PLACE")
# D20: for how long the agent of a cluster that was sent away or deleted may clean up; None is without limits.
OCMCONSOLE_CLEANUP_RIGHTS = cleanup_rights("OCMCONSOLE_CLEANUP_RIGHTS", "1h")
OCMCONSOLE_UNKNOWN_CERTIFICATES = choice("OCMCONSOLE_UNKNOWN_CERTIFICATES", "refuse", {"refuse", "accept"})
OCMCONSOLE_CERT_SHORTEST_LIFETIME = duration("OCMCONSOLE_CERT_SHORTEST_LIFETIME", "30m")
OCMCONSOLE_CERT_LIFETIME = duration("OCMCONSOLE_CERT_LIFETIME", "365d", least=OCMCONSOLE_CERT_SHORTEST_LIFETIME)
OCMCONSOLE_CLIENT_CA_FILE = text("OCMCONSOLE_CLIENT_CA_FILE")
OCMCONSOLE_PKCS11_MODULE = text("OCMCONSOLE_PKCS11_MODULE")
OCMCONSOLE_PKCS11_PIN = text("OCMCONSOLE_PKCS11_PIN")
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
OCMCONSOLE_TRACES = collector("OCMCONSOLE_TRACES")
OCMCONSOLE_TRACES_HEADERS = headers("OCMCONSOLE_TRACES_HEADERS")
OCMCONSOLE_TRACES_SAMPLE = share("OCMCONSOLE_TRACES_SAMPLE", "1")
OCMCONSOLE_TRACES_HEARTBEATS = share("OCMCONSOLE_TRACES_HEARTBEATS", "0.001")
OCMCONSOLE_TRACES_CALLERS = networks("OCMCONSOLE_TRACES_CALLERS")
OCMCONSOLE_FEATURE_GATES = gates("OCMCONSOLE_FEATURE_GATES")
OCMCONSOLE_AUTO_APPROVED_USERS = listed("OCMCONSOLE_AUTO_APPROVED_USERS")
OCMCONSOLE_RESOURCE_LABELS = pairs("OCMCONSOLE_RESOURCE_LABELS")
OCMCONSOLE_GC_RESOURCES = resources(
    "OCMCONSOLE_GC_RESOURCES",
    "addon.open-cluster-management.io/v1beta1/managedclusteraddons,work.open-cluster-management.io/v1/manifestworks",
)
OCMCONSOLE_GUARD_DISCONNECT = flag("OCMCONSOLE_GUARD_DISCONNECT", default=True)
OCMCONSOLE_ALLOW_CLUSTER_NAMESPACE_BINDING = flag("OCMCONSOLE_ALLOW_CLUSTER_NAMESPACE_BINDING", default=False)
OCMCONSOLE_MISCONFIGURED_PLACEMENTS = choice("OCMCONSOLE_MISCONFIGURED_PLACEMENTS", "keep", {"keep", "evict"})
OCMCONSOLE_EVICTION_BRAKE = choice("OCMCONSOLE_EVICTION_BRAKE", "on", {"on", "off"})
OCMCONSOLE_PLACEMENT_HISTORY = duration("OCMCONSOLE_PLACEMENT_HISTORY", "30d")
OCMCONSOLE_ACCESS_PROVIDER = text("OCMCONSOLE_ACCESS_PROVIDER")
OCMCONSOLE_ALLOW_REKEY = flag("OCMCONSOLE_ALLOW_REKEY", default=False)
OCMCONSOLE_SECOND_APPROVAL = second_approvals("OCMCONSOLE_SECOND_APPROVAL")
OCMCONSOLE_SECOND_APPROVAL_WAITS = duration("OCMCONSOLE_SECOND_APPROVAL_WAITS", "24h")
if OCMCONSOLE_ALLOW_REKEY and "key-override" in OCMCONSOLE_SECOND_APPROVAL:
    raise ImproperlyConfigured(
        "OCMCONSOLE_ALLOW_REKEY lets in any new key without a word, OCMCONSOLE_SECOND_APPROVAL wants two people for one"
    )
OCMCONSOLE_LIMIT_STRANGER_BODY = size("OCMCONSOLE_LIMIT_STRANGER_BODY", "64Ki", least=intake.KIB)
# One caller gets a part of a budget only, and that must hold the largest body.
OCMCONSOLE_LIMIT_STRANGER_BODIES = size(
    "OCMCONSOLE_LIMIT_STRANGER_BODIES", "2Mi", least=intake.SHARE * OCMCONSOLE_LIMIT_STRANGER_BODY
)
OCMCONSOLE_LIMIT_BODIES = size("OCMCONSOLE_LIMIT_BODIES", "64Mi", least=intake.SHARE * intake.LARGEST_BODY)
OCMCONSOLE_AUDIT_RETENTION = retention("OCMCONSOLE_AUDIT_RETENTION")
OCMCONSOLE_AUDIT_STREAM = path("OCMCONSOLE_AUDIT_STREAM")
OCMCONSOLE_AUDIT_SYSLOG = syslog("OCMCONSOLE_AUDIT_SYSLOG")
OCMCONSOLE_AUDIT_WEBHOOK = webhook("OCMCONSOLE_AUDIT_WEBHOOK")
OCMCONSOLE_AUDIT_ANCHOR = path("OCMCONSOLE_AUDIT_ANCHOR")
OCMCONSOLE_AUDIT_ANCHOR_WEBHOOK = webhook("OCMCONSOLE_AUDIT_ANCHOR_WEBHOOK")
OCMCONSOLE_AUDIT_WEBHOOK_SECRET = signing_secrets("OCMCONSOLE_AUDIT_WEBHOOK_SECRET")
if (OCMCONSOLE_AUDIT_WEBHOOK or OCMCONSOLE_AUDIT_ANCHOR_WEBHOOK) and not OCMCONSOLE_AUDIT_WEBHOOK_SECRET:
    raise ImproperlyConfigured("webhooks of the audit are signed: set OCMCONSOLE_AUDIT_WEBHOOK_SECRET")
OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES = networks("OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES")
OCMCONSOLE_WEBHOOK_CA_FILE = text("OCMCONSOLE_WEBHOOK_CA_FILE")
OCMCONSOLE_MAIL = mail_server("OCMCONSOLE_MAIL")
OCMCONSOLE_MAIL_PASSWORD = text("OCMCONSOLE_MAIL_PASSWORD")
OCMCONSOLE_MAIL_FROM = text("OCMCONSOLE_MAIL_FROM", "ocmconsole@localhost")
if OCMCONSOLE_MAIL:
    EMAIL_HOST, EMAIL_PORT = OCMCONSOLE_MAIL.host, OCMCONSOLE_MAIL.port
    EMAIL_USE_SSL, EMAIL_USE_TLS = OCMCONSOLE_MAIL.way == "smtps", OCMCONSOLE_MAIL.way == "smtp+starttls"
    EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = OCMCONSOLE_MAIL.user, OCMCONSOLE_MAIL_PASSWORD
DEFAULT_FROM_EMAIL = OCMCONSOLE_MAIL_FROM
EMAIL_TIMEOUT = 20  # seconds; no longer than a webhook has
# D23: limits for each identity; 0 is none. What an agent or kubectl sends by itself stays far below (docs/settings.md).
OCMCONSOLE_LIMIT_REQUESTS = number("OCMCONSOLE_LIMIT_REQUESTS", 25)
OCMCONSOLE_LIMIT_BURST = number("OCMCONSOLE_LIMIT_BURST", 500)
OCMCONSOLE_LIMIT_IN_FLIGHT = number("OCMCONSOLE_LIMIT_IN_FLIGHT", 64)
OCMCONSOLE_LIMIT_WATCHES = number("OCMCONSOLE_LIMIT_WATCHES", 100)
OCMCONSOLE_LIMIT_STRANGERS = number("OCMCONSOLE_LIMIT_STRANGERS", 10)
OCMCONSOLE_LIMIT_CPU = number("OCMCONSOLE_LIMIT_CPU", 5)
OCMCONSOLE_LIMIT_STATUS_SIZE = size("OCMCONSOLE_LIMIT_STATUS_SIZE", "256Ki", least=0)
OCMCONSOLE_LIMIT_CLAIMS = number("OCMCONSOLE_LIMIT_CLAIMS", 1_000)
OCMCONSOLE_LIMIT_TOKEN_OBJECTS = number("OCMCONSOLE_LIMIT_TOKEN_OBJECTS", 1_000)
OCMCONSOLE_LIMIT_CHANGE_LOG = size("OCMCONSOLE_LIMIT_CHANGE_LOG", "256Mi", least=0)
AUDIT_KEY = kept_secret(OCMCONSOLE_HOME, "audit-key")

# ---------------------------------------------------------------- Django

SECRET_KEY = OCMCONSOLE_SECRET_KEY
DEBUG = False
ALLOWED_HOSTS = ["*"]  # the console's middleware compares with OCMCONSOLE_CONSOLE_URL; API clients send any name
CSRF_TRUSTED_ORIGINS = [OCMCONSOLE_CONSOLE_URL]
APPEND_SLASH = False  # no redirects: Go clients turn a redirected POST into a GET (W118)
ROOT_URLCONF = "ocmconsole.urls"
WSGI_APPLICATION = None
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
USE_I18N = False
FORMAT_MODULE_PATH = "ocmconsole.formats"

INSTALLED_APPS = [
    "ocmconsole.apps.ConsoleConfig",
    "ocmconsole.kubeapi",
    "ocmconsole.second_approval",
    "ocmconsole.core",
    "clusters",
    "clustersets",
    "placements",
    "registration",
    "guardian",
    "django_htmx",
    "template_partials",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
if OCMCONSOLE_OIDC_ISSUER:
    INSTALLED_APPS += ["allauth.socialaccount.providers.openid_connect"]

MIDDLEWARE = [
    "ocmconsole.server.listeners.ListenerMiddleware",
    "ocmconsole.server.middleware.RequestMiddleware",
    "ocmconsole.server.compression.CompressionMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "ocmconsole.server.middleware.while_away",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "ocmconsole.signin.lifetime.LifetimeMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "ocmconsole.signin.stepup.StepUpMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "ocmconsole.console.shell.looks_first",
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
                "ocmconsole.console.shell.shell",
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
if DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    DATABASES["default"]["ENGINE"] = "ocmconsole.postgres"
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": int(OCMCONSOLE_DATABASE_CONNECT_TIMEOUT.total_seconds()),
        "options": f"-c lock_timeout={int(OCMCONSOLE_DATABASE_LOCK_TIMEOUT.total_seconds())}s "
        f"-c statement_timeout={int(OCMCONSOLE_DATABASE_STATEMENT_TIMEOUT.total_seconds())}s "
        # What PostgreSQL does where a process of the hub is gone with its machine, in the middle of a write: by its
        # own defaults this holds up all other writes for two hours; so for some 15 s.
        "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=3 -c tcp_keepalives_count=3 -c tcp_user_timeout=15000",
        # A PostgreSQL whose machine is gone says nothing: noticed after some 25 s, also by who only waits.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 25_000,
        **DATABASES["default"].get("OPTIONS", {}),  # type: ignore[dict-item] # what the URL says
    }
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": OCMCONSOLE_DATABASE_LOCK_TIMEOUT.total_seconds(),
        # 16 MiB of log between two checkpoints: pages that heartbeats write again and again go to the file once.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536; "
        "PRAGMA wal_autocheckpoint=4096;",
    }

CACHES = {
    "default": {
        "BACKEND": "ocmconsole.server.cache.SteadyCache",
        "LOCATION": OCMCONSOLE_REDIS_URL,
        "OPTIONS": redis_client.options(),
    }
    if OCMCONSOLE_REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "ocmconsole.core.rbac.backends.ObjectBackend",
    "ocmconsole.core.rbac.backends.RbacBackend",
]
SILENCED_SYSTEM_CHECKS = ["guardian.W001"]  # misses guardian's backend, which ours extends
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
ACCOUNT_EMAIL_VERIFICATION = "none"  # mail carries notifications alone
ACCOUNT_UNIQUE_EMAIL = False  # an address proves nothing here
ACCOUNT_FORMS = {
    "login": "ocmconsole.signin.forms.SignInForm",
    "change_password": "ocmconsole.signin.forms.PasswordForm",
    "reauthenticate": "ocmconsole.signin.forms.ConfirmForm",
}
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
# Counted in the cache, so over all processes only with Redis. Each is a number a minute (error_pages.LIMIT), but one.
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

SESSION_ENGINE = "ocmconsole.signin.sessions"
SESSION_COOKIE_NAME = "ocmconsole_session"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = int(OCMCONSOLE_SESSION_LIFETIME.total_seconds())  # signin.lifetime ends it sooner
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = OCMCONSOLE_CONSOLE_URL.startswith("https:")
CSRF_COOKIE_NAME = "ocmconsole_csrf"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if SESSION_COOKIE_SECURE else 0
CSRF_FAILURE_VIEW = "ocmconsole.components.error_pages.csrf_failure"
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
    "EXCEPTION_HANDLER": "ocmconsole.kubeapi.http.responses.exception_handler",
}

LOGGING = logs.config(OCMCONSOLE_LOG_FORMAT)
