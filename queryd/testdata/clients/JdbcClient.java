import java.sql.*;
import java.util.*;
import java.util.concurrent.atomic.AtomicBoolean;

/** What a program on pgJDBC does, printed so that two servers can be compared. */
public class JdbcClient {
  static final Map<String, String> env = System.getenv();

  static Connection connect(Properties more) throws SQLException {
    Properties p = new Properties();
    p.setProperty("user", env.get("CLIENT_USER"));
    p.setProperty("password", env.get("CLIENT_PASSWORD"));
    if (!env.get("CLIENT_CA").isEmpty()) {
      p.setProperty("sslmode", "verify-full");
      p.setProperty("sslrootcert", env.get("CLIENT_CA"));
    }
    p.putAll(more);
    return DriverManager.getConnection("jdbc:postgresql://" + env.get("CLIENT_HOST") + ":" + env.get("CLIENT_PORT") + "/" + env.get("CLIENT_DATABASE"), p);
  }

  static void rows(String title, ResultSet r, String... columns) throws SQLException {
    while (r.next()) {
      StringBuilder b = new StringBuilder(title);
      for (String c : columns) b.append(" | ").append(r.getObject(c));
      System.out.println(b);
    }
    r.close();
  }

  static void metadata(Connection conn) throws SQLException {
    DatabaseMetaData m = conn.getMetaData();
    rows("schema", m.getSchemas(null, "public"), "TABLE_SCHEM");
    rows("table", m.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"}), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE");
    for (String table : new String[] {"lines", "types", "Mixed Case"}) {
      rows("column", m.getColumns(null, "public", table, "%"), "TABLE_NAME", "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "ORDINAL_POSITION");
      rows("key", m.getPrimaryKeys(null, "public", table), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
      rows("index", m.getIndexInfo(null, "public", table, true, true), "INDEX_NAME", "NON_UNIQUE", "ORDINAL_POSITION", "COLUMN_NAME");
      rows("row identifier", m.getBestRowIdentifier(null, "public", table, DatabaseMetaData.bestRowSession, true), "COLUMN_NAME", "TYPE_NAME");
      rows("imported", m.getImportedKeys(null, "public", table), "FKTABLE_NAME");
      rows("exported", m.getExportedKeys(null, "public", table), "FKTABLE_NAME");
      rows("privilege", m.getTablePrivileges(null, "public", table + "nope"), "PRIVILEGE");
    }
    for (ResultSet r : List.of(m.getCatalogs(), m.getTableTypes(), m.getTypeInfo(), m.getFunctions(null, null, "nope"), m.getProcedures(null, "public", "%"), m.getClientInfoProperties(), m.getUDTs(null, "public", "nope", null)))
      r.close();
    System.out.println("product " + m.getDatabaseProductName() + " " + m.supportsTransactions() + " " + m.getIdentifierQuoteString());
  }

  static void values(Connection conn, String how) throws SQLException {
    try (PreparedStatement s = conn.prepareStatement("SELECT * FROM types WHERE id <> ? ORDER BY id")) {
      s.setInt(1, 99);
      // More than prepareThreshold times, so that the last runs are prepared ones with binary results.
      for (int run = 0; run < 7; run++) {
        try (ResultSet r = s.executeQuery()) {
          ResultSetMetaData m = r.getMetaData();
          while (r.next()) {
            if (run != 0 && run != 6) continue;
            for (int i = 1; i <= m.getColumnCount(); i++) {
              Object o = r.getObject(i);
              String shown = o instanceof SQLXML x ? x.getString() : o instanceof byte[] b ? HexFormat.of().formatHex(b) : o instanceof Array a ? a.getBaseTypeName() + Arrays.deepToString((Object[]) a.getArray()).replaceAll("\\[B@[0-9a-f]+", "bytes") : String.valueOf(o);
              System.out.println("value " + how + " run " + run + " | " + m.getColumnName(i) + " | " + m.getColumnTypeName(i) + " | " + (o == null ? "" : o.getClass().getSimpleName()) + " | " + shown);
            }
          }
        }
      }
    }
  }

  static void cancel(Connection conn) throws Exception {
    try (Statement s = conn.createStatement()) {
      AtomicBoolean over = new AtomicBoolean();
      Thread canceller = new Thread(() -> {
        while (!over.get()) {
          try {
            Thread.sleep(200);
            s.cancel();
            // The driver sends that once; a request that was faster than its statement was in vain.
            conn.unwrap(org.postgresql.PGConnection.class).cancelQuery();
          } catch (Exception e) {
            System.out.println("cancel: " + e);
          }
        }
      });
      canceller.start();
      try {
        s.executeQuery(env.get("CLIENT_LONG"));
        System.out.println("cancelled not");
      } catch (SQLException e) {
        System.out.println("cancelled " + e.getSQLState());
      } finally {
        over.set(true);
        canceller.join();
      }
    }
  }

  public static void main(String[] args) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("Asia/Kolkata"));
    try (Connection conn = connect(new Properties())) {
      metadata(conn);
      try (PreparedStatement s = conn.prepareStatement("SELECT id, note, price FROM lines WHERE order_id = ? AND note = ? AND price < ?")) {
        s.setInt(1, 1);
        s.setString(2, "two");
        s.setBigDecimal(3, new java.math.BigDecimal("100"));
        System.out.println("parameter metadata " + s.getParameterMetaData().getParameterTypeName(1) + " " + s.getMetaData().getColumnTypeName(3));
        rows("parameters", s.executeQuery(), "id", "note", "price");
      }
      try (PreparedStatement s = conn.prepareStatement("SELECT id FROM types WHERE d = ? OR tz > ? OR id = ANY(?) ORDER BY id")) {
        s.setDate(1, java.sql.Date.valueOf("2024-02-29"));
        s.setTimestamp(2, Timestamp.valueOf("2024-02-29 00:00:00"));
        s.setArray(3, conn.createArrayOf("int4", new Integer[] {3, 4}));
        rows("parameters", s.executeQuery(), "id");
      }
      values(conn, "extended");
      conn.setAutoCommit(false);
      try (Statement s = conn.createStatement()) {
        s.setFetchSize(2);
        rows("fetched", s.executeQuery("SELECT id, line FROM lines ORDER BY id"), "id", "line");
      }
      conn.commit();
      conn.setAutoCommit(true);
      conn.setReadOnly(true);
      System.out.println("valid " + conn.isValid(5) + " " + conn.getSchema());
      System.out.println("isolation " + conn.getTransactionIsolation());
      try (Statement s = conn.createStatement()) {
        s.executeQuery("SELECT nope FROM lines");
      } catch (SQLException e) {
        System.out.println("error " + e.getSQLState());
      }
      cancel(conn);
      try (Statement s = conn.createStatement()) {
        rows("after", s.executeQuery("SELECT 1 AS one"), "one");
      }
    }
    Properties simple = new Properties();
    simple.setProperty("preferQueryMode", "simple");
    try (Connection conn = connect(simple)) {
      values(conn, "simple");
    }
  }
}
