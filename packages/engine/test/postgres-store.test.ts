import { after, before } from 'node:test'
import { type Database, newDatabase } from '../../../test/kit/postgres.ts'
import { postgresAdapter } from './conformance/postgres-adapter.ts'
import { storeSuite } from './conformance/store-suite.ts'

let database: Database
before(async () => {
  database = await newDatabase()
})
after(() => database.close())

storeSuite(
  postgresAdapter(
    () => database.url,
    () => database.query('TRUNCATE sessions, heads, events, keys, daemons CASCADE'),
  ),
)
