"""Django's settings, made from `kernel.config`. Wiring only: what can differ between installations is in the Config table."""

from __future__ import annotations

import math
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from controlplane.keys import read_previous_keys, read_secret_key
from kernel.config import current
from webapi.bounds import BODY_BYTES

CONFIG = current()
ROOT = Path(__file__).resolve().parents[2]

SECRET_KEY = read_secret_key(CONFIG.data_dir, may_generate=not CONFIG.is_production)
SECRET_KEY_FALLBACKS = read_previous_keys(CONFIG.data_dir)
DEBUG = CONFIG.debug
ALLOWED_HOSTS = list(CONFIG.hosts)  # Asked by `webapi.middleware`. Links are made from BERTH_PUBLIC_URL, never from the header.
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "tenants.User"
APPEND_SLASH = False
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # Assets are served from the installed packages; nothing has to be collected first.
PORTAL = CONFIG.portal_dir or ROOT / "portal"  # As built by tools/portal.py; without it there is the API alone.
WHITENOISE_ROOT = Path(PORTAL) / "public" if (Path(PORTAL) / "public").is_dir() else None
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/assets/.+-[\w-]{8}\.\w+$"  # Vite puts a digest into each name.

INSTALLED_APPS = [
    "activity",  # Before the console: its start hides what an incomplete channel says.
    "unfold.apps.BasicAppConfig",
    "controlplane.console.apps.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "channels",
    "webapi",
    "reconciling",
    "clusters",
    "tenants",
    "images",
    "storage",
    "jobs",
    "controlplane",
]

MIDDLEWARE = [
    "webapi.middleware.RequestEnvelope",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# The console alone has sessions; its middleware is put around its own views (`controlplane/console/site.py`).
SILENCED_SYSTEM_CHECKS = ["admin.E408", "admin.E409", "admin.E410"]
IS_HTTPS = CONFIG.public_url.startswith("https:")
SESSION_COOKIE_NAME = "__Host-berth-console" if IS_HTTPS else "berth-console"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Strict"
SESSION_COOKIE_AGE = 8 * 3600
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
CSRF_COOKIE_NAME = "__Host-berth-csrf" if IS_HTTPS else "berth-csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_TRUSTED_ORIGINS = [CONFIG.public_url.rstrip("/")] if CONFIG.public_url else []
SECURE_REFERRER_POLICY = "no-referrer"
LOGIN_URL = "admin:login"
UNFOLD = {
    "SITE_TITLE": "Berth",
    "SITE_HEADER": "Berth",
    "SITE_SYMBOL": "anchor",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    # The portal's own (frontend/src/app/theme.ts), so that both are seen to be one thing, in light and in dark.
    "COLORS": {
        "primary": {
            "50": "#e3fafc", "100": "#c5f0f5", "200": "#96e0ea", "300": "#63cfde", "400": "#3bbfd2", "500": "#1fa9bf",
            "600": "#0b7285", "700": "#085f70", "800": "#064a58", "900": "#053f4b", "950": "#032b34",
        },
        "base": {
            "50": "#f8f9fa", "100": "#f1f3f5", "200": "#dee2e6", "300": "#ced4da", "400": "#a6adb4", "500": "#656d75",
            "600": "#495057", "700": "#424242", "800": "#2e2e2e", "900": "#242424", "950": "#1b1b1b",
        },
    },
}  # fmt: skip


def _database(url: str) -> dict[str, object]:
    if not url:
        return {
            "ENGINE": "upstream.sqlite",
            "NAME": str(CONFIG.data_dir / "berth.sqlite3"),
            # Measured: the defaults fail two of three concurrent writers with "database is locked".
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                # NORMAL, because the backend itself brings every commit to the disk before it returns, several at once.
                "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
            },
            "CONN_MAX_AGE": 0,
            # An in-memory test database cannot be shared by the threads of the embedded platform.
            "TEST": {"NAME": str(CONFIG.data_dir / "test.sqlite3")},
        }
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "upstream.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.get("host", parts.hostname or ""),
        "PORT": str(query.get("port", parts.port or "")),
        "CONN_MAX_AGE": 0,
        "OPTIONS": {
            "pool": {"min_size": 1, "max_size": 16, "timeout": CONFIG.database_wait_seconds},
            "prepare_threshold": 2,  # For `prepared_cursor` alone.
            "connect_timeout": max(2, math.ceil(CONFIG.database_wait_seconds)),
            # Over a network: a server that vanished without a word is noticed within half a minute.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        },
    }


DATABASES = {"default": _database(CONFIG.database_url)}

CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher"]

REST_FRAMEWORK = {
    "DEFAULT_METADATA_CLASS": None,  # OPTIONS says nothing of a view: the description does, and no other origin is let in.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.identity.api.authentication.TokenAuthentication",
        "tenants.identity.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["webapi.permissions.SignedIn"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["webapi.parsers.LimitedJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "webapi.schema.BerthSchema",
    "EXCEPTION_HANDLER": "webapi.problems.handle_exception",
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_THROTTLE_CLASSES": ["webapi.throttles.PerCaller"],
    "LIST_SERIALIZER_ERRORS_AS_DICT": True,
}
DATA_UPLOAD_MAX_MEMORY_SIZE = BODY_BYTES  # A caller who sends so much was authenticated before it is read (webapi.body_limit).

SPECTACULAR_SETTINGS = {
    "TITLE": "Berth",
    "DESCRIPTION": "Every team's jobs get their place on a shared GPU cluster.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "POSTPROCESSING_HOOKS": ["webapi.schema.complete"],
    "DEFAULT_GENERATOR_CLASS": "webapi.schema.BerthGenerator",
    "AUTHENTICATION_WHITELIST": [],
}

LOGGING_CONFIG = None  # controlplane.logs sets structlog up, once per process.
