/** One connection to PostgreSQL: names, order, and when it is given up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from '../../../test/kit/folder.ts'
import { eventually } from '../../../test/kit/wait.ts'
import { Connection } from '../src/store/postgres/connection.ts'
import { opened, proxied, query } from './conformance/shared-database.ts'

test('a pooler that does not know named statements costs one attempt for each connection, and nothing is lost', async (t) => {
  const { url } = await proxied(t)
  const connection = new Connection({ url, waitMs: 10_000 })
  atEnd(t, () => connection.end())
  const ask = async (it: number) => (await connection.queryPlanned('SELECT $1::int AS it', [it]))[0]?.['it']
  const named = async () => (await connection.query('SELECT name FROM pg_prepared_statements')).length
  assert.deepEqual([await ask(1), await ask(2), await named()], [1, 2, 1])
  await connection.query('DEALLOCATE ALL') // as if the next statement went to another connection of the server
  assert.deepEqual([await ask(3), await named(), await ask(4), await named()], [3, 0, 4, 0])
  const [row] = await connection.query('SELECT pg_backend_pid() AS pid')
  await query('SELECT pg_terminate_backend($1)', [Number(row?.['pid'])])
  await eventually('it is opened again', () => ask(5).catch(() => undefined))
  assert.equal(await named(), 1, 'the next connection may lead to another pooler, or to none')
})

test('statements that are asked at once run one after another, and fail together if the connection breaks', async (t) => {
  const { url, proxy } = await proxied(t)
  const connection = new Connection({ url, waitMs: 10_000 })
  atEnd(t, () => connection.end())
  const warnings: string[] = []
  const note = ({ message }: Error): void => void warnings.push(message)
  process.on('warning', note)
  const ask = (it: number) => connection.query('SELECT $1::int AS it', [it]).then(([row]) => row?.['it'])
  assert.deepEqual(await Promise.all([1, 2, 3, 4].map(ask)), [1, 2, 3, 4])
  proxy.up = 'hold'
  const asked = Promise.allSettled([5, 6, 7].map(ask))
  connection.break()
  assert.deepEqual(
    (await asked).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  )
  proxy.heal()
  assert.equal(await ask(8), 8)
  process.off('warning', note)
  assert.deepEqual(warnings, [], 'pg warns of statements that it has to queue itself')
})

test('a connection on which nothing can be written is given up, and the next one can write', async (t) => {
  await opened(t) // it makes the tables
  const { url } = await proxied(t)
  const connection = new Connection({ url, waitMs: 10_000 })
  atEnd(t, () => connection.end())
  const write = () => connection.query('DELETE FROM keys')
  await connection.query('SET default_transaction_read_only = on') // as on a server that was a standby when it was opened
  await assert.rejects(write(), { code: '25006' })
  await write()
})
