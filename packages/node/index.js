"use strict";

// Perdura under better-sqlite3: databases that commit in persistent memory, and are there after `kill -9`.
//
// better-sqlite3 takes no URIs, so no database can name the VFS: once it is loaded it is the default one of all
// databases that this process opens with better-sqlite3.

const fs = require("node:fs");
const path = require("node:path");

const library = path.join(__dirname, "libperdura_sqlite.so");
// The classes `Database` into whose SQLite it was loaded.
const loaded = new WeakSet();

/** The error of `open` if the VFS does not take a database. */
class NotTaken extends Error {
    constructor(file) {
        super(
            `${file}: Perdura's VFS does not take this database. It takes those in persistent memory or tmpfs;` +
                " none on an ordinary disk or a full medium, none that is read-only or encrypted, and none that stock SQLite" +
                " has open in WAL mode. allowStock: true opens it as SQLite does",
        );
        this.name = "NotTaken";
    }
}

/** Where the extension is. */
function libraryPath() {
    return library;
}

/** Makes the VFS the default one of the SQLite of `Database`, the class that better-sqlite3 exports. */
function load(Database) {
    if (typeof Database !== "function") {
        throw new TypeError("load wants the class Database of better-sqlite3");
    }
    if (loaded.has(Database)) return;
    const loader = new Database(":memory:");
    try {
        loader.loadExtension(library, "sqlite3_perduradefault_init");
    } finally {
        loader.close();
    }
    loaded.add(Database);
}

/** Whether the VFS has the main database of a connection. */
function isTaken(db) {
    return db.pragma("perdura_share").length > 0;
}

function isEmpty(file) {
    const found = fs.statSync(file, { throwIfNoEntry: false });
    return found === undefined || found.size === 0;
}

/** Puts a database into WAL mode that has no pages yet. */
function beginInWalMode(db) {
    let mode;
    try {
        if (db.pragma("page_count", { simple: true }) !== 0) return;
        mode = db.pragma("journal_mode = WAL", { simple: true });
    } catch (error) {
        // Another connection writes its first pages, and decides the mode.
        if (String(error.code).startsWith("SQLITE_BUSY")) return;
        throw error;
    }
    if (mode !== "wal") throw new Error(`${db.name}: a new database cannot begin in WAL mode; wal: false opens it`);
}

/**
 * Opens a database with the VFS: `options` are those of better-sqlite3, `allowStock`, with which a database that the
 * VFS does not take is opened all the same, and `wal`.
 *
 * A database that is new, or empty, is put into WAL mode, and so gets its first page, unless `wal` is false. One that
 * has pages keeps its mode.
 */
function open(Database, file, options = {}) {
    if (typeof file !== "string" || file === "" || file === ":memory:") {
        throw new TypeError("open wants the name of a file: a database without one has nothing to be durable in");
    }
    const { allowStock = false, wal = true, ...own } = options;
    load(Database);
    // Without a look at the file, each open would read the database, and wait for its locks.
    const begins = wal && !own.readonly && isEmpty(file);
    const db = new Database(file, own);
    try {
        const taken = isTaken(db);
        if (!taken && !allowStock) throw new NotTaken(file);
        if (taken && begins) beginInWalMode(db);
    } catch (error) {
        db.close();
        throw error;
    }
    return db;
}

/** What a connection has done to its main database: transactions, cache lines, fences and so on. */
function stats(db) {
    const rows = db.pragma("perdura_stats");
    if (rows.length === 0) throw new NotTaken(db.name);
    return JSON.parse(Object.values(rows[0])[0]);
}

module.exports = { NotTaken, load, open, path: libraryPath, stats };
