"""What a program on psycopg 3 does, printed so that two servers can be compared."""
import os
import threading

import psycopg

settings = dict(host=os.environ["CLIENT_HOST"], port=os.environ["CLIENT_PORT"], user=os.environ["CLIENT_USER"],
                password=os.environ["CLIENT_PASSWORD"], dbname=os.environ["CLIENT_DATABASE"])
if os.environ["CLIENT_CA"]:
    settings |= dict(sslmode="verify-full", sslrootcert=os.environ["CLIENT_CA"], channel_binding="require")
LONG = os.environ["CLIENT_LONG"]

with psycopg.connect(**settings, autocommit=True) as conn:
    print("tls", bool(os.environ["CLIENT_CA"]) == (conn.pgconn.ssl_in_use if hasattr(conn.pgconn, "ssl_in_use") else True))
    for n in range(8):  # from the sixth on as a prepared statement
        row = conn.execute("SELECT id, note, price FROM lines WHERE order_id = %s AND line >= %s ORDER BY line", (1, n % 2)).fetchone()
    print("parameters", row)
    print("list", conn.execute("SELECT id FROM types WHERE id = ANY(%s) ORDER BY id", ([1, 3],)).fetchall())
    print("null", conn.execute("SELECT %s::text IS NULL, %s::int", (None, 7)).fetchone())
    for binary in (False, True):
        cursor = conn.cursor(binary=binary)
        cursor.execute("SELECT * FROM types WHERE id <> %s ORDER BY id", (99,))
        names = [d.name for d in cursor.description]
        for row in cursor:
            for name, value in zip(names, row):
                print("value", "binary" if binary else "text", row[0], name, repr(value))
    with conn.transaction():
        cursor = conn.cursor(name="server side")
        cursor.execute("SELECT id, line FROM lines ORDER BY id")
        print("cursor", cursor.fetchmany(2), cursor.fetchall())
    with conn.cursor().copy("COPY (SELECT id, note, price FROM lines ORDER BY id) TO STDOUT") as copy:
        print("copy", list(copy.rows()))
    with conn.pipeline():
        one, two = conn.execute("SELECT %s::int", (1,)), conn.execute("SELECT count(*) FROM lines")
    print("pipeline", one.fetchone(), two.fetchone())
    try:
        conn.execute("SELECT nope FROM lines")
    except psycopg.errors.UndefinedColumn as e:
        print("error", e.sqlstate)

    stop = threading.Event()

    def cancel():
        while not stop.wait(0.2):
            conn.cancel_safe()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        conn.execute(LONG)
    except psycopg.errors.QueryCanceled as e:
        print("cancelled", e.sqlstate)
    finally:
        stop.set()
        canceller.join()
    print("after", conn.execute("SELECT 1").fetchone())
