-- Grafana 11: what its PostgreSQL data source asks in its health check and query editor, and a panel's query with macros expanded.
SELECT 1;
SELECT current_setting('server_version_num')::int / 100 AS version;
SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog', '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental') AND table_type IN ('BASE TABLE', 'VIEW') AND quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END FROM (SELECT generate_subscripts(string_to_array(current_setting('search_path'), ','), 1) AS i, string_to_array(current_setting('search_path'), ',') AS s) AS x) ORDER BY 1;
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE quote_ident(table_name) = 'lines' ORDER BY 1;
SELECT floor(extract(epoch FROM tz) / 300) * 300 AS "time", avg(f8) AS value FROM types WHERE tz BETWEEN '2020-01-01T00:00:00Z' AND '2030-01-01T00:00:00Z' AND f8 > -1 GROUP BY 1 ORDER BY 1;
SELECT extract(epoch FROM tz) AS time, i4 AS value FROM types WHERE extract(epoch FROM tz) >= 1577836800 AND extract(epoch FROM tz) <= 1893456000 ORDER BY 1;
SELECT tz AS "time", t AS metric, f8 AS value FROM types WHERE tz BETWEEN '2020-01-01T00:00:00Z' AND '2030-01-01T00:00:00Z' ORDER BY tz;
