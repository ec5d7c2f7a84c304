"""Perdura under Python's `sqlite3`: databases that commit in persistent memory, and are there after `kill -9`.

`connect` opens a database as `sqlite3.connect` does, through the VFS `perdura`, which lies in this package as an
extension of SQLite. `load` only loads it, for those who open databases by other means, and `path` says where it is.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sqlite3
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import _sqlite3

if TYPE_CHECKING:
    from typing import Callable, Literal, Type, TypedDict

    from typing_extensions import Unpack

    class Options(TypedDict, total=False):
        """What `sqlite3.connect` takes besides the database and `uri`."""

        timeout: float
        detect_types: int
        isolation_level: Optional[Literal["DEFERRED", "IMMEDIATE", "EXCLUSIVE"]]
        check_same_thread: bool
        factory: Union[Type[sqlite3.Connection], Callable[..., sqlite3.Connection]]
        cached_statements: int
        autocommit: Union[bool, int]


__all__ = ["NotTaken", "connect", "load", "path", "stats"]

_LIBRARY = "libperdura_sqlite.so"
_OLDEST = (3, 34, 0)
# What is registered stays until the process ends, in children that are forked, too.
_loading = threading.Lock()
_loaded = False


class NotTaken(sqlite3.OperationalError):
    """The database is not one of the VFS: SQLite's own VFS has it, so it commits as SQLite ever does."""


def path() -> str:
    """Returns where the extension is."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), _LIBRARY)


def load(*, default: bool = False) -> None:
    """Registers the VFS `perdura` with the SQLite of the module `sqlite3`; it stays until the process ends.

    With `default` each database that is opened from now on and names no VFS is opened with it. `connect` loads it by
    itself; calling this twice does nothing.

    Raises `sqlite3.NotSupportedError` if SQLite is older than 3.34 or cannot be reached, and
    `sqlite3.OperationalError` if it refuses the extension.
    """
    global _loaded
    with _loading:
        if _loaded and not default:
            return
        if sqlite3.sqlite_version_info < _OLDEST:
            wanted = ".".join(map(str, _OLDEST[:2]))
            raise sqlite3.NotSupportedError(
                f"Python's SQLite is {sqlite3.sqlite_version}; Perdura's extension needs {wanted} or newer"
            )
        if hasattr(sqlite3.Connection, "enable_load_extension"):
            _load_by_sqlite(default)
        else:
            _load_by_ctypes(default)
        try:
            sqlite3.connect("file::memory:?vfs=perdura", uri=True).close()
        except sqlite3.OperationalError as error:
            raise sqlite3.NotSupportedError(
                "the extension was loaded into another SQLite than that of the module sqlite3"
            ) from error
        _loaded = True


def _load_by_sqlite(default: bool) -> None:
    loader = sqlite3.connect(":memory:")
    try:
        loader.enable_load_extension(True)
        # The method has an entry point from Python 3.12 on, the function in SQL has ever had one.
        entry = "sqlite3_perduradefault_init" if default else "sqlite3_extension_init"
        loader.execute("SELECT load_extension(?, ?)", (path(), entry))
    finally:
        loader.close()


def _load_by_ctypes(default: bool) -> None:
    """As `_load_by_sqlite`, for a Python that was built without the method: its SQLite can load all the same."""
    # A module that is built into the interpreter has no file: what it is linked with is found from there.
    module = getattr(_sqlite3, "__file__", None)
    extension = ctypes.CDLL(path())
    results: List[int] = []

    def register(_database: Any, _error: Any, routines: Any) -> int:
        results.append(extension.perdura_register(ctypes.c_void_p(routines), int(default)))
        return results[-1]

    begin = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(register)
    try:
        library = ctypes.CDLL(module)
        add, cancel = library.sqlite3_auto_extension, library.sqlite3_cancel_auto_extension
    except (OSError, AttributeError) as error:
        raise sqlite3.NotSupportedError(
            "this Python was built without Connection.enable_load_extension, and its SQLite cannot be reached otherwise"
        ) from error
    if add(begin) != 0:
        raise sqlite3.OperationalError("SQLite takes no automatic extension")
    try:
        sqlite3.connect(":memory:").close()
    finally:
        cancel(begin)
    if not results:
        raise sqlite3.NotSupportedError("another SQLite was reached than that of the module sqlite3")
    if any(results):
        raise sqlite3.OperationalError(f"SQLite refuses Perdura's extension: error {max(results)}")


def connect(
    database: Union[str, bytes, os.PathLike[str], os.PathLike[bytes]],
    *,
    mode: Optional[str] = None,
    domain: Optional[str] = None,
    share: Optional[str] = None,
    wal: bool = True,
    allow_stock: bool = False,
    uri: bool = False,
    **options: Unpack[Options],
) -> sqlite3.Connection:
    """Opens a database with the VFS `perdura`; all that `sqlite3.connect` takes can be given by its name.

    A database that is new, or empty, is put into WAL mode, and so gets its first page. One that has pages keeps its
    mode. A new database stays in a rollback mode with `mode`, with `share="stock"`, and with `wal=False`.

    - `mode`: how it commits in a rollback mode, as the parameter `perdura_mode` of a URI.
    - `domain`: where stores become durable, as `perdura_domain`: the medium's own if there is none.
    - `share`: who may use it at the same time, as `perdura_share`: "stock" lets stock SQLite.
    - `wal`: whether a new database begins in WAL mode. `PRAGMA page_size` and `auto_vacuum` come before it.
    - `allow_stock`: a database that the VFS does not take, such as one on an ordinary disk without a `domain`, is
      opened all the same, and commits as SQLite ever does.
    - `uri`: `database` may be a URI, if it begins with `file:`. Its parameters `perdura_mode`, `perdura_domain` and
      `perdura_share` do as well as `mode`, `domain` and `share`.

    Raises `NotTaken` if the VFS does not take it, `ValueError` if it is no file or what is asked for contradicts
    itself, and else what `sqlite3.connect` raises.
    """
    name, mode, file = _name(database, uri, mode, domain, share)
    load()
    # Without a look at the file, each open would read the database, and wait for its locks.
    new = wal and file is not None and _is_empty(file)
    try:
        opens: Callable[..., sqlite3.Connection] = sqlite3.connect
        connection = opens(name, uri=True, **options)
    except sqlite3.OperationalError as error:
        raise _explained(error, name) from error
    if allow_stock or mode == "stock":
        return connection
    try:
        taken = _pragma(connection, "perdura_share") is not None
        if taken and new:
            _begin_in_wal_mode(connection, name)
    except BaseException:
        connection.close()
        raise
    if not taken:
        connection.close()
        raise NotTaken(
            f"{name}: Perdura's VFS does not take this database: {_why_not_taken()}. It takes those in persistent memory"
            " or tmpfs, and on a disk if a domain is named (domain='disk'). allow_stock=True opens it as SQLite does"
        )
    return connection


def stats(connection: sqlite3.Connection) -> Dict[str, int]:
    """Returns what a connection has done to its main database: transactions, cache lines, fences and so on.

    Raises `NotTaken` if the VFS does not have the database.
    """
    found = _pragma(connection, "perdura_stats")
    if found is None:
        raise NotTaken("the connection's main database is not one of Perdura's VFS")
    counts: Dict[str, int] = json.loads(found)
    return counts


def _is_empty(file: bytes) -> bool:
    try:
        return os.stat(file).st_size == 0
    except FileNotFoundError:
        return True


def _begin_in_wal_mode(connection: sqlite3.Connection, name: str) -> None:
    """Puts a database into WAL mode that has no pages yet."""
    # In this mode the connection is always in a transaction, and the journal mode cannot change in one.
    always_in_transaction = getattr(connection, "autocommit", None) is False
    try:
        if always_in_transaction:
            connection.autocommit = True
        if _pragma(connection, "page_count") != 0:
            return
        answer = _pragma(connection, "journal_mode = WAL")
    except sqlite3.OperationalError as error:
        # Another connection writes its first pages, and decides the mode.
        if "locked" in str(error):
            return
        raise _explained(error, name) from error
    finally:
        if always_in_transaction:
            connection.autocommit = False
    if answer not in ("wal", b"wal"):
        raise sqlite3.OperationalError(f"a new database cannot begin in WAL mode; wal=False opens it: {name}")


def _why_not_taken() -> str:
    """Why the last database that this thread opened was left to SQLite."""
    reason = ctypes.CDLL(path()).perdura_not_taken
    reason.restype = ctypes.c_char_p
    text: Optional[bytes] = reason()
    return "SQLite opened it otherwise" if text is None else text.decode()


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    """The answer of a pragma, `None` if there is none: a pragma of the VFS where it has not got the database."""
    # Whatever the connection's class makes of cursors and rows.
    cursor = sqlite3.Cursor(connection)
    try:
        cursor.row_factory = None
        row = cursor.execute(f"PRAGMA {name}").fetchone()
    finally:
        cursor.close()
    return None if row is None else row[0]


def _name(
    database: Any, uri: bool, mode: Optional[str], domain: Optional[str], share: Optional[str]
) -> Tuple[str, Optional[str], Optional[bytes]]:
    """Returns the URI by which SQLite opens a database with the VFS, the mode that it names, and the file's name if a
    new file may begin in WAL mode."""
    for what, value in (("mode", mode), ("domain", domain), ("share", share)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{what} has to be a str, not {type(value).__name__}")
    given = os.fsencode(database)
    if b"\0" in given:
        raise ValueError("the name of a database has a zero byte")
    parameters = {"perdura_mode": mode, "perdura_domain": domain, "perdura_share": share}
    wanted = {name: value for name, value in parameters.items() if value is not None}
    if uri and given.startswith(b"file:"):
        head, hash_sign, tail = os.fsdecode(given).partition("#")
        begin, _, query = head.partition("?")
        named = dict(parse_qsl(query, keep_blank_values=True))
        if named.get("vfs", "perdura") != "perdura":
            raise ValueError(f"the URI names another VFS, {named['vfs']}")
        for name, value in list(wanted.items()):
            if named.get(name, value) != value:
                raise ValueError(f"the URI says {name}={named[name]}, and the argument {value!r}")
        in_memory = begin in ("file:", "file::memory:") or named.get("mode") == "memory"
        wanted = {"vfs": "perdura", **wanted}
        added = [f"{name}={quote(value)}" for name, value in wanted.items() if name not in named]
        name = begin + "?" + "&".join(([query] if query else []) + added) + hash_sign + tail
        mode, share = named.get("perdura_mode", mode), named.get("perdura_share", share)
        writes = named.get("mode") != "ro" and not named.keys() & {"immutable", "nolock"}
        may_begin = writes and named.get("perdura_wal") != "off"
        # After two slashes there may be a host.
        path = re.sub("^//[^/]*", "", begin[len("file:") :])
        file = unquote_to_bytes(os.fsencode(path)).partition(b"\0")[0]
    else:
        may_begin, file = True, given
        in_memory = given in (b"", b":memory:")
        # Two slashes at the beginning would be a host.
        begin = "file://" if given.startswith(b"/") else "file:"
        named_all = {"vfs": "perdura", **wanted}
        name = begin + quote(given) + "?" + "&".join(f"{key}={quote(value)}" for key, value in named_all.items())
    if in_memory:
        raise ValueError("a database without a file has nothing to be durable in: sqlite3.connect opens it")
    return name, mode, file if may_begin and mode is None and share != "stock" else None


def _explained(error: sqlite3.OperationalError, name: str) -> sqlite3.OperationalError:
    """The error with the database and its parameters in it, which SQLite leaves out."""
    explained = type(error)(f"{error}: {name}")
    for attribute in ("sqlite_errorcode", "sqlite_errorname"):
        if hasattr(error, attribute):
            setattr(explained, attribute, getattr(error, attribute))
    return explained
