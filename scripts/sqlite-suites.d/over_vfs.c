/* Puts a program of SQLite's over the VFS: for scripts/sqlite-suites.
**
** The library that PERDURA_LIBRARY names is loaded, whose VFS is then the default one; without
** that variable the program runs as it is. Before a connection is closed, the counts of its main
** database (PRAGMA perdura_stats) become a line of the file that PERDURA_COUNTS names, if the VFS
** has that database. If PERDURA_JOURNAL names a journal mode, the preloaded library puts each database in a file that
** is opened into that mode, over the VFS and without it.
**
** Linked into a program, with SQLITE_EXTRA_INIT=perdura_extra_init in its SQLite and the linker's
** --wrap for both functions that close; the same for SQLite's testfixture, with
** OVER_VFS_TESTFIXTURE, and for fuzzcheck, with OVER_VFS_FUZZCHECK and --wrap also for the memory that
** is in use; or, with OVER_VFS_PRELOADED, a library to be preloaded before libsqlite3.
*/
#ifdef OVER_VFS_PRELOADED
#define _GNU_SOURCE
#include <dlfcn.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sqlite3.h"

#ifdef OVER_VFS_TESTFIXTURE
int sqlite3SafetyCheckSickOrOk(sqlite3 *connection);
#endif

static void note_counts(sqlite3 *connection) {
    char *pragma[] = {0, "perdura_stats", 0, 0};
    const char *path = getenv("PERDURA_COUNTS");
    if (!connection || !path || !getenv("PERDURA_LIBRARY")) return;
#ifdef OVER_VFS_TESTFIXTURE
    /* Its tests also close what is closed. */
    if (!sqlite3SafetyCheckSickOrOk(connection)) return;
#endif
    if (sqlite3_file_control(connection, "main", SQLITE_FCNTL_PRAGMA, pragma) == SQLITE_OK
        && pragma[0]) {
        char line[2048];
        int bytes = snprintf(line, sizeof line, "%s\n", pragma[0]);
        int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
#ifdef OVER_VFS_TESTFIXTURE
        /* Its tests also use up what may be open. */
        if (file < 0 && errno == EMFILE) {
            sqlite3_free(pragma[0]);
            return;
        }
#endif
        if (file < 0 || bytes >= (int)sizeof line || write(file, line, bytes) != bytes) {
            fprintf(stderr, "counts cannot be written to %s\n", path);
            abort();
        }
        close(file);
    }
    sqlite3_free(pragma[0]);
}

/* The bytes that SQLite keeps for the library, as long as it is not shut down: its list of what runs at each
** opening. fuzzcheck takes all that is in use before it begins for a leak. */
static sqlite3_int64 kept = 0;

static sqlite3_int64 memory_used(void) {
#ifdef OVER_VFS_FUZZCHECK
    sqlite3_int64 __real_sqlite3_memory_used(void);
    return __real_sqlite3_memory_used();
#else
    return sqlite3_memory_used();
#endif
}

#ifdef OVER_VFS_FUZZCHECK
sqlite3_int64 __wrap_sqlite3_memory_used(void) {
    sqlite3_int64 used = memory_used();
    return used > kept ? used - kept : 0;
}
#endif

int perdura_extra_init(const char *unused) {
    static sqlite3_vfs *registered = 0;
    const char *library = getenv("PERDURA_LIBRARY");
    sqlite3 *memory = 0;
    char *error = 0;
    int code;
    (void)unused;
    if (!library) return SQLITE_OK;
    /* SQLite was shut down, and begins again with its own VFS as the default one. */
    if (registered) return sqlite3_vfs_register(registered, 1);
    code = sqlite3_open_v2(":memory:", &memory,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY, 0);
    if (code == SQLITE_OK)
        code = sqlite3_db_config(memory, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_load_extension(memory, library, "sqlite3_perduradefault_init", &error);
    if (code != SQLITE_OK) {
        fprintf(stderr, "%s cannot be loaded: %s\n", library, error ? error : sqlite3_errstr(code));
        exit(3);
    }
    registered = sqlite3_vfs_find("perdura");
    code = sqlite3_close(memory);
    kept = memory_used();
    return code;
}

#ifdef OVER_VFS_PRELOADED
__attribute__((constructor)) static void load(void) {
    perdura_extra_init(0);
}

static void *of_sqlite(const char *name) {
    void *really = dlsym(RTLD_NEXT, name);
    if (!really) {
        fprintf(stderr, "libsqlite3 is to be preloaded, too\n");
        abort();
    }
    return really;
}

static int close_really(const char *name, sqlite3 *connection) {
    return ((int (*)(sqlite3 *))of_sqlite(name))(connection);
}

/* A database that is locked, read-only or none keeps its mode: the counts say whether others have changed theirs. */
static void set_journal_mode(sqlite3 *connection) {
    const char *mode = getenv("PERDURA_JOURNAL");
    const char *file = sqlite3_db_filename(connection, "main");
    char *pragma;
    if (!mode || !*mode || !file || !*file || sqlite3_db_readonly(connection, "main")) return;
    pragma = sqlite3_mprintf("PRAGMA journal_mode = %s", mode);
    if (pragma) sqlite3_exec(connection, pragma, 0, 0, 0);
    sqlite3_free(pragma);
}

int sqlite3_open(const char *name, sqlite3 **connection) {
    int (*really)(const char *, sqlite3 **) = (int (*)(const char *, sqlite3 **))of_sqlite("sqlite3_open");
    int code = really(name, connection);
    if (code == SQLITE_OK) set_journal_mode(*connection);
    return code;
}

int sqlite3_open_v2(const char *name, sqlite3 **connection, int flags, const char *vfs) {
    int (*really)(const char *, sqlite3 **, int, const char *) =
        (int (*)(const char *, sqlite3 **, int, const char *))of_sqlite("sqlite3_open_v2");
    int code = really(name, connection, flags, vfs);
    if (code == SQLITE_OK) set_journal_mode(*connection);
    return code;
}

int sqlite3_close(sqlite3 *connection) {
    note_counts(connection);
    return close_really("sqlite3_close", connection);
}

int sqlite3_close_v2(sqlite3 *connection) {
    note_counts(connection);
    return close_really("sqlite3_close_v2", connection);
}
#else
int __real_sqlite3_close(sqlite3 *connection);
int __real_sqlite3_close_v2(sqlite3 *connection);

int __wrap_sqlite3_close(sqlite3 *connection) {
    note_counts(connection);
    return __real_sqlite3_close(connection);
}

int __wrap_sqlite3_close_v2(sqlite3 *connection) {
    note_counts(connection);
    return __real_sqlite3_close_v2(connection);
}
#endif
