/** After any sequence of operations, a store in PostgreSQL holds what a simple model of it holds. */
import { after, before } from 'node:test'
import { type Database, newDatabase } from '../../../../test/kit/postgres.ts'
import { postgresAdapter } from '../conformance/postgres-adapter.ts'
import { storeSequences } from '../conformance/store-sequences.ts'

let database: Database
before(async () => {
  database = await newDatabase()
})
after(() => database.close())

storeSequences(
  postgresAdapter(
    () => database.url,
    () => database.query('TRUNCATE sessions, heads, events, keys, daemons CASCADE'),
  ),
  15,
)
