import ctypes
import sqlite3
import _sqlite3

LIBRARY = "@LIBRARY@"


def load_perdura():
    """Registers the VFS with this process's SQLite: once, before the first database."""
    loader = sqlite3.connect(":memory:")
    if hasattr(loader, "enable_load_extension"):
        loader.enable_load_extension(True)
        loader.load_extension(LIBRARY)
    else:
        # A Python that was built without extensions: its SQLite has them all the same.
        library, extension = ctypes.CDLL(_sqlite3.__file__), ctypes.CDLL(LIBRARY)
        begin = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(
            lambda database, error, routines: extension.perdura_register(ctypes.c_void_p(routines), 0)
        )
        library.sqlite3_auto_extension(begin)
        sqlite3.connect(":memory:").close()
        library.sqlite3_cancel_auto_extension(begin)
    loader.close()


load_perdura()
db = sqlite3.connect("file:@DATABASE@?vfs=perdura", uri=True)
# Readers and a writer at the same time. The database keeps the mode.
db.execute("PRAGMA journal_mode = WAL")
with db:
    db.execute("CREATE TABLE IF NOT EXISTS t(a)")
    db.execute("INSERT INTO t VALUES(1)")
print(db.execute("PRAGMA perdura_stats").fetchone()[0])
