package main

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// elsewhere tells where the files are and how other engines read them.
func (d *demo) elsewhere() {
	heading("Where the data is")
	files, bytes := map[string]int{}, int64(0)
	_ = filepath.WalkDir(d.daemon.warehouse, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
			files[strings.TrimPrefix(filepath.Ext(path), ".")]++
		}
		return nil
	})
	say("Iceberg tables (format 3, deletion vectors) in %s", d.daemon.warehouse)
	say("  %d Parquet, %d Puffin, %d Avro and %d JSON files, %.1f MiB; catalog (SQLite) %s", files["parquet"], files["puffin"], files["avro"], files["json"],
		float64(bytes)/(1<<20), d.daemon.catalog)
	say("%s", strings.NewReplacer("CATALOG", d.daemon.catalog, "WAREHOUSE", d.daemon.warehouse).Replace(snippets))
}

// snippets were tried with PyIceberg 0.12, and with Spark 3.5 and Iceberg 1.10.
const snippets = `
While these files are there (KEEP=1) other engines read them without Streambed:

  PyIceberg   pip install 'pyiceberg[sql-sqlite,pyarrow,duckdb]'
    from pyiceberg.catalog.sql import SqlCatalog
    lake = SqlCatalog("streambed", uri="sqlite:///CATALOG", warehouse="file://WAREHOUSE")
    tellers = lake.load_table("public.pgbench_tellers").scan()
    tellers.to_arrow()

  DuckDB      on top of it
    tellers.to_duckdb("tellers").sql("select bid, sum(tbalance) from tellers group by bid")

  Spark
    spark-sql --packages org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0,org.xerial:sqlite-jdbc:3.50.3.0 \
      --conf spark.sql.catalog.streambed=org.apache.iceberg.spark.SparkCatalog --conf spark.sql.catalog.streambed.type=jdbc \
      --conf spark.sql.catalog.streambed.uri=jdbc:sqlite:CATALOG --conf spark.sql.catalog.streambed.warehouse=file://WAREHOUSE \
      -e 'select bid, sum(tbalance) from streambed.public.pgbench_tellers group by bid'`
