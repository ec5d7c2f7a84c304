# In settings.py; load_perdura is that of the recipe for Python.
load_perdura()
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "file:@DATABASE@?vfs=perdura",
        # Readers and a writer at the same time. The database keeps the mode.
        "OPTIONS": {"init_command": "PRAGMA journal_mode = WAL"},
    }
}
