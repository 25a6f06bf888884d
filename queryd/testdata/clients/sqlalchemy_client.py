"""What a program on SQLAlchemy 2 does, printed so that two servers can be compared."""
import os
import threading

import sqlalchemy as sa

url = sa.URL.create("postgresql+" + os.environ["CLIENT_DRIVER"], username=os.environ["CLIENT_USER"], password=os.environ["CLIENT_PASSWORD"],
                    host=os.environ["CLIENT_HOST"], port=int(os.environ["CLIENT_PORT"]), database=os.environ["CLIENT_DATABASE"])
arguments = {}
if os.environ["CLIENT_CA"]:
    arguments = dict(sslmode="verify-full", sslrootcert=os.environ["CLIENT_CA"])
engine = sa.create_engine(url, connect_args=arguments)
LONG = os.environ["CLIENT_LONG"]

inspector = sa.inspect(engine)
print("default schema", inspector.default_schema_name)
print("tables", sorted(inspector.get_table_names()))
print("schemas", "public" in inspector.get_schema_names())
for table in ("lines", "types", "Mixed Case"):
    print("has", table, inspector.has_table(table))
    for c in inspector.get_columns(table):
        print("column", table, c["name"], str(c["type"]))
    print("key", table, inspector.get_pk_constraint(table)["constrained_columns"])
    print("foreign keys", table, inspector.get_foreign_keys(table))
    print("unique", table, inspector.get_unique_constraints(table), inspector.get_check_constraints(table))
    print("indexes", table, inspector.get_indexes(table))
    print("comment", table, inspector.get_table_comment(table))
print("has", "nope", inspector.has_table("nope"))
print("views", inspector.get_view_names(), inspector.get_sequence_names())

metadata = sa.MetaData()
metadata.reflect(engine, only=["lines"])
lines = metadata.tables["lines"]
print("reflected key", [c.name for c in lines.primary_key])
with engine.connect() as conn:
    query = sa.select(lines.c.id, lines.c.note, lines.c.price).where(lines.c.order_id == 1, lines.c.line.in_([1, 2])).order_by(lines.c.line)
    for row in conn.execute(query):
        print("parameters", row)
    types = sa.Table("types", sa.MetaData(), autoload_with=engine)
    for row in conn.execute(sa.select(types).order_by(types.c.id)):
        for name, value in row._mapping.items():
            print("value", row.id, name, repr(value))
    print("aggregate", conn.execute(sa.select(sa.func.count(), sa.func.sum(lines.c.price)).group_by(lines.c.order_id).order_by(lines.c.order_id)).all())
    print("text", conn.execute(sa.text("SELECT note FROM lines WHERE note ILIKE :p ORDER BY 1"), {"p": "%é%"}).all())
    driver = conn.connection.driver_connection
    stop = threading.Event()

    def cancel():
        while not stop.wait(0.2):
            driver.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        conn.execute(sa.text(LONG))
    except sa.exc.OperationalError as e:
        print("cancelled", getattr(e.orig, "sqlstate", None) or e.orig.pgcode)
    finally:
        stop.set()
        canceller.join()
    conn.rollback()
    print("after", conn.execute(sa.text("SELECT 1")).scalar())
