# load_perdura is that of the recipe for Python.
from sqlalchemy import create_engine, text

load_perdura()
engine = create_engine("sqlite:///file:@DATABASE@?vfs=perdura&uri=true")
# Readers and a writer at the same time. The database keeps the mode.
with engine.connect() as db:
    db.execute(text("PRAGMA journal_mode = WAL"))
with engine.begin() as db:
    db.execute(text("CREATE TABLE IF NOT EXISTS t(a)"))
    db.execute(text("INSERT INTO t VALUES(1)"))
with engine.connect() as db:
    print(db.execute(text("PRAGMA perdura_stats")).scalar())
