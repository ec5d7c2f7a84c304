"use strict";

// The package's promises, tested where it is installed next to better-sqlite3: `scripts/node-package --check` runs it.

const assert = require("node:assert");
const { spawn, spawnSync } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const Database = require("better-sqlite3");
const perdura = require("perdura-sqlite");

const MEMORY = "/dev/shm";

function folder(t) {
    const made = fs.mkdtempSync(path.join(MEMORY, "perdura-node-"));
    t.after(() => fs.rmSync(made, { recursive: true }));
    return made;
}

test("what was reported is there after a kill", async (t) => {
    const file = path.join(folder(t), "db");
    const program = `
        const db = require("perdura-sqlite").open(require("better-sqlite3"), process.argv[1]);
        db.exec("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)");
        const insert = db.prepare("INSERT INTO t VALUES(?, ?)");
        for (let row = 0; ; row++) {
            insert.run(row, String(row).repeat(50));
            require("node:fs").writeSync(1, row + "\\n");
        }`;
    const writer = spawn(process.execPath, ["-e", program, file], { stdio: ["ignore", "pipe", "inherit"] });
    let reported = "";
    writer.stdout.setEncoding("utf8");
    writer.stdout.on("data", (text) => {
        reported += text;
        if (reported.length > 2000) writer.kill("SIGKILL");
    });
    const [, signal] = await new Promise((done) => writer.on("close", (...how) => done(how)));
    assert.strictEqual(signal, "SIGKILL");
    const count = reported.split("\n").length - 1;
    const db = perdura.open(Database, file);
    t.after(() => db.close());
    assert.strictEqual(db.pragma("integrity_check", { simple: true }), "ok");
    const rows = db.prepare("SELECT a FROM t ORDER BY a").pluck().all();
    // The last one may have been committed and not reported.
    assert.ok(rows.length === count || rows.length === count + 1, `${rows.length} rows, ${count} reported`);
    assert.deepStrictEqual(rows, [...rows.keys()]);
});

test("a database begins in WAL mode if it is new, and keeps its mode if not", (t) => {
    const mode = (db) => db.pragma("journal_mode", { simple: true });
    const made = folder(t);
    const at = (name) => path.join(made, name);
    fs.writeFileSync(at("empty"), "");
    for (const name of ["new", "empty"]) {
        const db = perdura.open(Database, at(name));
        assert.strictEqual(mode(db), "wal");
        db.exec("CREATE TABLE t(a)");
        assert.ok(perdura.stats(db).wal_frames > 0);
        db.close();
        // The mode that the file names, for each connection.
        assert.deepStrictEqual([...fs.readFileSync(at(name)).subarray(18, 20)], [2, 2]);
    }
    const rollback = perdura.open(Database, at("rollback"), { wal: false });
    assert.strictEqual(fs.statSync(at("rollback")).size, 0);
    rollback.exec("CREATE TABLE t(a)");
    assert.strictEqual(mode(rollback), "delete");
    rollback.close();
    const again = perdura.open(Database, at("rollback"));
    assert.strictEqual(mode(again), "delete");
    again.close();
});

test("a connection that writes the first pages decides the mode", (t) => {
    const file = path.join(folder(t), "db");
    const first = perdura.open(Database, file, { wal: false });
    t.after(() => first.close());
    first.exec("BEGIN IMMEDIATE; CREATE TABLE t(a)");
    const second = perdura.open(Database, file, { timeout: 10 });
    t.after(() => second.close());
    first.exec("COMMIT");
    assert.strictEqual(second.pragma("journal_mode", { simple: true }), "delete");
});

test("what the VFS does not take is refused unless that is allowed", async (t) => {
    const file = path.join(folder(t), "db");
    // Stock SQLite has the database open in WAL mode.
    const program = `
        const db = new (require("better-sqlite3"))(process.argv[1]);
        db.pragma("journal_mode = WAL");
        db.exec("CREATE TABLE t(a)");
        console.log("ready");
        process.stdin.resume();`;
    const stock = spawn(process.execPath, ["-e", program, file]);
    t.after(() => stock.kill());
    await once(stock.stdout, "data");
    assert.throws(() => perdura.open(Database, file), perdura.NotTaken);
    const db = perdura.open(Database, file, { allowStock: true });
    t.after(() => db.close());
    db.exec("INSERT INTO t VALUES(1)");
    assert.throws(() => perdura.stats(db), perdura.NotTaken);
});

test("wrong arguments are refused", () => {
    for (const name of [":memory:", "", undefined, 1]) {
        assert.throws(() => perdura.open(Database, name), { name: "TypeError", message: /without one/ });
    }
    assert.throws(() => perdura.load({}), { name: "TypeError", message: /the class Database/ });
    assert.throws(() => perdura.open(Database, "/dev/shm/nowhere/db"), /directory does not exist/);
    assert.throws(() => perdura.open(Database, "/dev/shm/" + "x".repeat(300)), { code: "SQLITE_CANTOPEN" });
    assert.ok(path.isAbsolute(perdura.path()) && fs.existsSync(perdura.path()));
});

test("options are those of better-sqlite3", (t) => {
    const file = path.join(folder(t), "db");
    assert.throws(() => perdura.open(Database, file, { fileMustExist: true }), /unable to open/);
    const said = [];
    const db = perdura.open(Database, file, { verbose: (sql) => said.push(sql) });
    t.after(() => db.close());
    db.exec("CREATE TABLE t(a)");
    assert.ok(said.includes("CREATE TABLE t(a)"));
});

test("the example of the README prints what it says", (t) => {
    const file = path.join(folder(t), "db");
    const text = fs.readFileSync(path.join(__dirname, "README.md"), "utf8");
    const [, program] = text.match(/^```js\n(.*?)^```/ms);
    assert.ok(program.includes(`${MEMORY}/my.db`));
    const ran = spawnSync(process.execPath, ["-e", program.replace(`${MEMORY}/my.db`, file)], { encoding: "utf8" });
    assert.strictEqual(ran.status, 0, ran.stderr);
    const expected = [...program.matchAll(/\/\/ prints (.*)/g)].map((found) => found[1]);
    assert.deepStrictEqual(ran.stdout.trimEnd().split("\n"), expected);
});
