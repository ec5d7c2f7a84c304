# In settings.py; load_perdura is that of the recipe for Python.
load_perdura()
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "file:@DATABASE@?vfs=perdura",
    }
}
