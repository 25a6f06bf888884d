"""What DuckDB's postgres scanner does, printed so that two servers can be compared."""
import os
import pathlib

import duckdb
import duckdb_extension_postgres_scanner as package

source = f"host={os.environ['CLIENT_HOST']} port={os.environ['CLIENT_PORT']} user={os.environ['CLIENT_USER']} password=''{os.environ['CLIENT_PASSWORD']}'' dbname={os.environ['CLIENT_DATABASE']}"
if os.environ["CLIENT_CA"]:
    source += f" sslmode=verify-full sslrootcert={os.environ['CLIENT_CA']}"
db = duckdb.connect(config={"autoinstall_known_extensions": "false"})
(extension,) = pathlib.Path(package.__file__).parent.rglob("postgres_scanner.duckdb_extension")
db.execute(f"LOAD '{extension}'")
db.execute("SET TimeZone = 'UTC'")
db.execute(f"ATTACH '{source}' AS lake (TYPE postgres, READ_ONLY)")
for row in db.execute("SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'lake' AND table_schema = 'public' ORDER BY ALL").fetchall():
    print("table", row)
for table in ("lines", "Mixed Case"):
    for row in db.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_catalog = 'lake' AND table_name = ? ORDER BY ordinal_position", [table]).fetchall():
        print("column", table, row)
print("parameters", db.execute("SELECT id, note, price FROM lake.lines WHERE order_id = ? AND line > ? ORDER BY line", [1, 0]).fetchall())
print("aggregate", db.execute("SELECT order_id, count(*), sum(price) FROM lake.lines GROUP BY ALL ORDER BY ALL").fetchall())
cursor = db.execute("SELECT * EXCLUDE (en) FROM lake.types ORDER BY id")
names = [d[0] for d in cursor.description]
for row in cursor.fetchall():
    for name, value in zip(names, row):
        print("value", row[0], name, repr(value))
print("join", db.execute('SELECT l.id, m."Upper" FROM lake.lines l JOIN lake."Mixed Case" m ON m."Key" = l.line ORDER BY ALL').fetchall())
print("query", db.execute("SELECT * FROM postgres_query('lake', 'SELECT count(*) AS n FROM lines')").fetchall())
try:
    db.execute("SELECT * FROM postgres_query('lake', 'SELECT nope FROM lines')").fetchall()
except duckdb.Error as e:
    print("error", "nope" in str(e))
