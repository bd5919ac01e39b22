/** The boxes of a fleet, when one of its runners does not answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, isFault } from '@breakfall/faults'
import { createRunnerClient } from '@breakfall/runner/client'
import { boxesAt } from '../src/api/boxes.ts'
import { closedPort } from '../../../test/kit/tcp-server.ts'
import { httpServer } from '../../../test/kit/http-server.ts'

const never = new AbortController().signal

test('a runner that does not answer is named, and hides no box of the others', async (t) => {
  const server = await httpServer((_req, res) => void res.end(JSON.stringify({ boxes: [] })))
  t.after(() => server.close())
  const at = (runnerId: string, url: string) => {
    const address = { url, runnerId, token: 't' }
    const client = createRunnerClient(address)
    t.after(() => client.close())
    return () => Promise.resolve({ client, address })
  }
  const up = at('up', server.url)
  const down = at('down', `http://127.0.0.1:${await closedPort()}`)
  const all = (...runners: [string, ReturnType<typeof at>][]) => ({ all: () => Promise.resolve(new Map(runners)) })
  assert.deepEqual(await boxesAt(all(['up', up], ['down', down]), never), { boxes: [], unreachable: ['down'] })
  assert.deepEqual(await boxesAt(all(['up', up]), never), { boxes: [] })
  assert.deepEqual(await boxesAt(all(), never), { boxes: [] })
  await assert.rejects(
    boxesAt(all(['down', down]), never),
    (thrown: unknown) => isFault(thrown) && thrown.category === 'runner_unreachable',
  )
  await assert.rejects(boxesAt({ all: () => Promise.reject(new Fault('journal_unreachable')) }, never))
})
