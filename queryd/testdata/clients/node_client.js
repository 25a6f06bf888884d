// What a program on node-postgres does, printed so that two servers can be compared.
const fs = require('fs');
const { Client, Pool } = require('pg');

const env = process.env;
const settings = {
  host: env.CLIENT_HOST, port: Number(env.CLIENT_PORT), user: env.CLIENT_USER, password: env.CLIENT_PASSWORD, database: env.CLIENT_DATABASE,
  ssl: env.CLIENT_CA ? { ca: fs.readFileSync(env.CLIENT_CA) } : false,
};

async function main() {
  const client = new Client(settings);
  await client.connect();
  const show = (name, rows) => console.log(name, JSON.stringify(rows));
  show('columns', (await client.query(
    `SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale FROM information_schema.columns
     WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position`, ['public', 'lines'])).rows);
  show('key', (await client.query(
    `SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
     WHERE i.indrelid = $1::regclass AND i.indisprimary ORDER BY a.attnum`, ['lines'])).rows);
  show('parameters', (await client.query('SELECT id, note, price FROM lines WHERE order_id = $1 AND line > $2 ORDER BY line', [1, 0])).rows);
  const named = { name: 'by-note', text: 'SELECT id FROM lines WHERE note = $1', values: ['two'] };
  show('prepared', [(await client.query(named)).rows, (await client.query(named)).rows]);
  show('list', (await client.query('SELECT id FROM types WHERE id = ANY($1) ORDER BY id', [[1, 3]])).rows);
  const types = await client.query('SELECT * FROM types ORDER BY id');
  for (const row of types.rows) for (const f of types.fields) {
    const value = row[f.name];
    console.log('value', row.id, f.name, value === null ? 'null' : value.constructor.name, typeof value === 'number' ? value : JSON.stringify(value));
  }
  show('binary', (await client.query({ text: 'SELECT id, b, i2, i4, t FROM types WHERE id < $1 ORDER BY id', values: [4], binary: true })).rows);
  try {
    await client.query('SELECT nope FROM lines');
  } catch (e) {
    console.log('error', e.code, e.position);
  }

  const [{ pid }] = (await client.query('SELECT pg_backend_pid() AS pid')).rows;
  console.log('pid', pid === client.processID);
  // node-postgres' own cancel: a second connection that names the first one's key.
  const cancel = () => {
    const other = new Client(settings);
    other.connection.on('error', () => {});
    other.cancel(client, query);
  };
  let query;
  const ended = new Promise((resolve) => {
    query = new Client.Query(env.CLIENT_LONG, (e) => resolve(e ? e.code : 'it ended by itself'));
    client.query(query);
  });
  const timer = setInterval(cancel, 200);
  const how = await ended;
  clearInterval(timer);
  console.log('cancelled', how);
  await client.end();

  const pool = new Pool({ ...settings, max: 4 });
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => pool.query('SELECT $1::int AS i', [i])));
  show('pool', answers.map((a) => a.rows[0].i));
  await pool.end();
}

main().catch((e) => { console.error(e); process.exit(1); });
