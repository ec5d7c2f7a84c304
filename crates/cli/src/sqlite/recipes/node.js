// better-sqlite3 takes no URIs: the VFS becomes the default one.
const Database = require("better-sqlite3");
new Database(":memory:").loadExtension("@LIBRARY@", "sqlite3_perduradefault_init");
const db = new Database("@DATABASE@");
// Readers and a writer at the same time. The database keeps the mode.
db.pragma("journal_mode = WAL");
db.exec("CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES(1)");
console.log(db.pragma("perdura_stats", { simple: true }));
