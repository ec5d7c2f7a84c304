# load_perdura is that of the recipe for Python.
from sqlalchemy import create_engine, text

load_perdura()
engine = create_engine("sqlite:///file:@DATABASE@?vfs=perdura&uri=true")
with engine.begin() as db:
    db.execute(text("CREATE TABLE IF NOT EXISTS t(a)"))
    db.execute(text("INSERT INTO t VALUES(1)"))
with engine.connect() as db:
    print(db.execute(text("PRAGMA perdura_stats")).scalar())
