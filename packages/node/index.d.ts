/** A connection of better-sqlite3, as far as it is needed here. */
interface Connection {
    name: string;
    pragma(source: string): unknown;
    close(): unknown;
}

type DatabaseClass<Db, Options> = new (file: string, options?: Options) => Db;

/** The error of `open` and `stats` if the VFS does not have a database. */
export class NotTaken extends Error {}

/** Where the extension is. */
export function path(): string;

/** Makes the VFS the default one of the SQLite of `Database`, the class that better-sqlite3 exports. */
export function load<Db extends Connection, Options>(Database: DatabaseClass<Db, Options>): void;

/**
 * Opens a database with the VFS, and refuses one that it does not take unless `allowStock` is set. A new one begins in
 * WAL mode unless `wal` is false.
 */
export function open<Db extends Connection, Options>(
    Database: DatabaseClass<Db, Options>,
    file: string,
    options?: Options & { allowStock?: boolean; wal?: boolean },
): Db;

/** What a connection has done to its main database. */
export function stats(db: Connection): Record<string, number>;
