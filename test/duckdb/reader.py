"""Answers SQL statements, one JSON line each, with DuckDB and its own ducklake extension.

Its argument is the catalog, as ATTACH wants it after "ducklake:". A line is {"sql": "..."}; the answer {"rows": [[text or null]]} or {"error": "..."}.
The lake is attached as "lake", writable and without inlining of rows.
"""
import glob
import json
import os
import sys

import duckdb
import duckdb_extension_ducklake
import duckdb_extension_postgres_scanner
import duckdb_extension_sqlite_scanner

con = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
for module in (duckdb_extension_sqlite_scanner, duckdb_extension_postgres_scanner, duckdb_extension_ducklake):
    folder = os.path.dirname(module.__file__)
    for path in glob.glob(folder + "/extensions/*/*.duckdb_extension"):
        con.execute("LOAD '" + path.replace("'", "''") + "'")
con.execute("SET TimeZone = 'UTC'")
con.execute("ATTACH 'ducklake:" + sys.argv[1].replace("'", "''") + "' AS lake (DATA_INLINING_ROW_LIMIT 0)")
for line in sys.stdin:
    try:
        cursor = con.execute(json.loads(line)["sql"])
        rows = cursor.fetchall() if cursor.description else []
        answer = {"rows": [[None if v is None else str(v) for v in row] for row in rows]}
    except Exception as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
