/* cc program.c -lsqlite3 */
#include <sqlite3.h>
#include <stdio.h>

static int show(void *unused, int columns, char **values, char **names) {
    (void)unused, (void)names;
    if (columns > 0) puts(values[0]);
    return 0;
}

int main(void) {
    sqlite3 *loader, *db;
    char *error = 0;
    sqlite3_open(":memory:", &loader);
    sqlite3_enable_load_extension(loader, 1);
    if (sqlite3_load_extension(loader, "@LIBRARY@", 0, &error) != SQLITE_OK) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    sqlite3_open_v2("@DATABASE@", &db, flags, "perdura");
    /* Readers and a writer at the same time. The database keeps the mode. */
    sqlite3_exec(db, "PRAGMA journal_mode = WAL", 0, 0, &error);
    sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES(1)", 0, 0, &error);
    sqlite3_exec(db, "PRAGMA perdura_stats", show, 0, &error);
    if (error) fprintf(stderr, "%s\n", error);
    sqlite3_close(db);
    sqlite3_close(loader);
    return error != 0;
}
