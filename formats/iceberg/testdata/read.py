"""Prints what PyIceberg reads: one JSON line for every table and kept snapshot of a catalog."""
import json
import sys

from pyiceberg.catalog.sql import SqlCatalog

catalog = SqlCatalog("streambed", uri=sys.argv[1], warehouse=sys.argv[2])
for namespace in catalog.list_namespaces():
    for identifier in catalog.list_tables(namespace):
        table = catalog.load_table(identifier)
        for snapshot in table.snapshots() + [None]:
            rows = table.scan(snapshot_id=snapshot.snapshot_id if snapshot else None).to_arrow().to_pylist()
            print(json.dumps({
                "table": list(identifier),
                "format": table.format_version,
                "checkpoint": int(snapshot.summary["streambed.checkpoint"]) if snapshot else 0,
                "rows": sorted(" ".join(f"{k}={v}" for k, v in row.items()) for row in rows),
            }))
