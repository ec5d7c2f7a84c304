"""Settings with which Django's tests have their databases in files: for scripts/sqlite-suites."""

import os

_folder = os.environ["PERDURA_FOLDER"]
DATABASES = {
    name: {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.path.join(_folder, name),
        "TEST": {"NAME": os.path.join(_folder, f"test-{name}")},
    }
    for name in ("default", "other")
}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
