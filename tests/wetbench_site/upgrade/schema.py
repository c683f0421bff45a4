"""The schema of a database as comparable lines, without the order in which columns were added."""

import re
import sqlite3
from typing import Any

import psycopg

_POSTGRES = (
    """SELECT 'column', attrelid::regclass::text, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
              attcollation::regcollation::text, pg_get_expr(adbin, adrelid)
       FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
       LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
       WHERE relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped AND relnamespace = 'public'::regnamespace""",
    """SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated
       FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",
    "SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    """SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(pg_trigger.oid)
       FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
       WHERE NOT tgisinternal AND relnamespace = 'public'::regnamespace""",
    """SELECT 'other', relname, relkind FROM pg_class
       WHERE relnamespace = 'public'::regnamespace AND relkind NOT IN ('r', 'p', 'i')""",
    """SELECT 'function', proname, pg_get_functiondef(pg_proc.oid) FROM pg_proc
       WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'""",
)
# A constraint without a name of its own gets one from PostgreSQL in CREATE TABLE, and another from Django, with a digest,
# in ALTER TABLE. Django finds such constraints by their columns, so the name makes no difference.
_GENERATED = re.compile(r"_([0-9a-f]{8}_uniq|[0-9a-f]{8}_check|key|check)$")
# PostgreSQL writes `column IN ('a', 'b')` with one cast of the array, and after a dump was loaded with one cast per value.
_VALUE_CAST = re.compile(r"\(('[^']*'::character varying)\)::text")
_ARRAY_CAST = re.compile(r"\((ARRAY\[[^]]*\])\)::text\[\]")


def describe_sqlite(database: sqlite3.Connection) -> set[str]:
    """Return every column, constraint, index, trigger and view of a SQLite database."""
    lines = set()
    for kind, table, name, sql in database.execute("SELECT type, tbl_name, name, sql FROM sqlite_master"):
        if kind == "table" and not name.startswith("sqlite_"):
            body = sql[sql.index("(") + 1 : sql.rindex(")")]
            lines |= {f"table {table}: {definition}" for definition in _split_definitions(body)}
            lines.add(f"table {table} ends {sql[sql.rindex(')') :]}")
        elif kind != "table" and sql:  # the index of a UNIQUE column has no SQL of its own: the column's line has it
            lines.add(f"{kind} {table} {name}: {_squeeze(sql)}")
    return lines


def describe_postgres(database: "psycopg.Connection[Any]") -> set[str]:
    """Return every column, constraint, index, trigger, sequence, view and function of the schema `public`."""
    rows = [row for query in _POSTGRES for row in database.execute(query).fetchall()]
    return {_describe_row(*map(str, row)) for row in rows}


def _describe_row(kind: str, table: str, *rest: str) -> str:
    name = rest[0] if rest else ""
    line = _ARRAY_CAST.sub(r"\1", _VALUE_CAST.sub(r"\1", " | ".join((kind, table, *rest))))
    generated = kind in ("constraint", "index") and name.startswith(f"{table}_") and _GENERATED.search(name)
    return line.replace(name, "(generated)") if generated else line


def _split_definitions(body: str) -> list[str]:
    """Split the inside of CREATE TABLE at the commas that are in no parentheses and no quotes."""
    parts, depth, quote = [""], 0, ""
    for character in body:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character == "(") - (character == ")")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [_squeeze(part) for part in parts]


def _squeeze(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).strip()
