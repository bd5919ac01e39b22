/** What the engine relies on in a runner. The real one passes it, and so does the simulated one: a kinder world would prove nothing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '../../packages/faults/src/index.ts'
import type { RunnerClient } from '../../packages/runner/src/client/index.ts'
import type { ExecEvent } from '../../packages/wire/src/index.ts'

type OpenRunner = {
  readonly client: () => RunnerClient
  readonly restart: () => Promise<void>
  readonly close: () => Promise<void>
}

export type RunnerUnderTest = {
  readonly name: string
  /** Awaits a promise, in whatever time the runner has. */
  readonly settled: <T>(promise: Promise<T>) => Promise<T>
  /** A new runner, and how to restart its process. */
  readonly open: () => Promise<OpenRunner>
  /** A command that prints these lines over that time and exits with the code. */
  readonly command: (name: string, lines: number, ms: number, code: number) => string
}

export function runnerSuite({ name, settled, open, command }: RunnerUnderTest): void {
  type Run = (client: () => RunnerClient, restart: () => Promise<void>) => Promise<void>
  const scenario = (what: string, run: Run): void => {
    test(`${name}: ${what}`, async () => {
      const runner = await open()
      try {
        await settled(run(runner.client, runner.restart))
      } finally {
        await runner.close()
      }
    })
  }

  scenario('an exec starts once: the same id attaches, another body conflicts', async (client) => {
    const one = client().withEpoch(1)
    await one.createBox({ id: 'b' })
    const request = { execId: 'e', shell: command('x', 2, 50, 0), timeoutMs: 10_000 }
    const first = await one.startExec('b', request)
    assert.equal(first.execId, 'e')
    assert.equal((await one.startExec('b', request)).execId, 'e')
    await refused(one.startExec('b', { ...request, shell: command('y', 1, 0, 0) }), 'exec_conflict')
    const events = await all(one.execEvents('b', 'e'))
    assert.deepEqual(types(events), ['start', 'stdout', 'exit'])
    assert.equal(textOf(events), 'x line 1\nx line 2\n')
    assert.equal((await one.startExec('b', request)).exit?.code, 0)
  })

  scenario('events continue after any of them, also when the exec is over', async (client) => {
    const one = client().withEpoch(1)
    await one.createBox({ id: 'b' })
    await one.startExec('b', { execId: 'e', shell: command('x', 3, 100, 7), timeoutMs: 10_000 })
    const events = await all(one.execEvents('b', 'e'))
    for (const { seq } of events.slice(0, -1)) {
      const rest = await all(one.execEvents('b', 'e', { after: seq }))
      assert.deepEqual(rest, events.slice(seq))
    }
    const exit = events.at(-1)
    assert.ok(exit?.type === 'exit')
    assert.deepEqual([exit.cause, exit.code, exit.started], ['exited', 7, true])
  })

  scenario('a lower epoch is refused once a higher one was seen, with and without a box', async (client) => {
    const [one, two] = [client().withEpoch(1), client().withEpoch(2)]
    await one.createBox({ id: 'b' })
    await refused(client().ownBox('b'), 'invalid_request')
    assert.deepEqual(await two.ownBox('b'), { epoch: 2 })
    const late = { execId: 'late', shell: command('x', 1, 0, 0), timeoutMs: 10_000 }
    assert.equal((await refused(one.startExec('b', late), 'lease_lost')).report.epochSeen, 2)
    await refused(one.killExec('b', 'late', { burn: true }), 'lease_lost')
    await refused(one.removeBox('b'), 'lease_lost')
    await two.removeBox('b')
    await refused(one.createBox({ id: 'b' }), 'lease_lost')
    await two.ownBox('c')
    await refused(one.createBox({ id: 'c' }), 'lease_lost')
  })

  scenario(
    'a burned id never starts, and looks like an exec that was killed before it started',
    async (client, restart) => {
      const burned = await client().withEpoch(1).killExec('b', 'e', { burn: true })
      assert.deepEqual([burned.exit?.cause, burned.exit?.started], ['killed', false])
      await restart()
      const one = client().withEpoch(1)
      await one.createBox({ id: 'b' })
      const started = await one.startExec('b', { execId: 'e', shell: command('x', 1, 0, 0), timeoutMs: 10_000 })
      assert.deepEqual([started.exit?.cause, started.exit?.started], ['killed', false])
      await refused(one.killExec('b', 'other', {}), 'exec_not_found')
    },
  )

  scenario('a kill ends an exec, and answers when it is over', async (client) => {
    const one = client().withEpoch(1)
    await one.createBox({ id: 'b' })
    await one.startExec('b', { execId: 'e', shell: command('x', 1, 60_000, 0), timeoutMs: 120_000 })
    const killed = await one.killExec('b', 'e', { burn: true })
    const over = killed.exit === null ? await one.waitExec('b', 'e', {}) : killed
    assert.deepEqual([over.exit?.cause, over.exit?.started], ['killed', true])
    assert.equal((await one.killExec('b', 'e', { burn: true })).exit?.cause, 'killed')
  })

  scenario(
    'a file is replaced whole, by the newest owner, and only if it is what the writer has read',
    async (client, restart) => {
      const one = client().withEpoch(1)
      const text = (words: string): Buffer => Buffer.from(words)
      await refused(one.readFile('b', 'a.txt'), 'box_not_found')
      await refused(one.writeFile('b', 'a.txt', text('no')), 'box_not_found')
      await one.createBox({ id: 'b' })
      await refused(one.readFile('b', 'a.txt'), 'file_not_found')
      await refused(one.writeFile('b', 'a.txt', text('no'), { ifMatch: '"other"' }), 'precondition_failed')
      const first = await one.writeFile('b', 'a.txt', text('first'), { ifNoneMatch: '*' })
      await refused(one.writeFile('b', 'a.txt', text('no'), { ifNoneMatch: '*' }), 'precondition_failed')
      const second = await one.writeFile('b', 'a.txt', text('second'), { ifMatch: first.etag })
      await refused(one.writeFile('b', 'a.txt', text('no'), { ifMatch: first.etag }), 'precondition_failed')
      await restart()
      const [later, newer] = [client().withEpoch(1), client().withEpoch(2)]
      const found = await later.readFile('b', 'a.txt')
      assert.deepEqual([found.bytes.toString(), found.etag], ['second', second.etag])
      await newer.ownBox('b')
      await refused(later.writeFile('b', 'a.txt', text('no')), 'lease_lost')
      const third = await newer.writeFile('b', 'a.txt', text('second')) // also with the same bytes, it is another file
      assert.notEqual(third.etag, second.etag)
      await newer.removeBox('b')
      await newer.createBox({ id: 'b' })
      await refused(newer.readFile('b', 'a.txt'), 'file_not_found')
    },
  )

  scenario('what is not there is not found, and a box is made once', async (client) => {
    const one = client().withEpoch(1)
    await refused(one.getBox('b'), 'box_not_found')
    await refused(one.startExec('b', { execId: 'e', shell: 'true', timeoutMs: 1_000 }), 'box_not_found')
    assert.equal((await one.createBox({ id: 'b' })).state, 'running')
    await refused(one.createBox({ id: 'b' }), 'box_already_exists')
    await refused(one.getExec('b', 'e'), 'exec_not_found')
    await one.removeBox('b')
    await refused(one.getBox('b'), 'box_not_found')
  })

  scenario('a command outlives the process of the runner, with all of its output', async (client, restart) => {
    await client().withEpoch(1).createBox({ id: 'b' })
    const request = { execId: 'e', shell: command('x', 3, 1_500, 0), timeoutMs: 30_000 }
    await client().withEpoch(1).startExec('b', request)
    await restart()
    const events = await all(client().withEpoch(1).execEvents('b', 'e'))
    assert.equal(textOf(events), 'x line 1\nx line 2\nx line 3\n')
    assert.equal((await client().withEpoch(1).startExec('b', request)).exit?.code, 0)
  })
}

// ---- details ----

async function all(events: ReturnType<RunnerClient['execEvents']>): Promise<ExecEvent[]> {
  const list: ExecEvent[] = []
  for await (const event of events) {
    if (event.type === 'fault') throw event.fault
    list.push(event)
  }
  return list
}

async function refused(promise: Promise<unknown>, category: string) {
  const thrown: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  )
  assert.ok(isFault(thrown), `not refused: ${category}`)
  assert.equal(thrown.category, category)
  return thrown
}

/** A command may print in pieces of any size. */
const types = (events: readonly ExecEvent[]): string[] =>
  events.map(({ type }) => type).filter((type, at, list) => type !== list[at - 1])

const textOf = (events: readonly ExecEvent[]): string =>
  events.flatMap((event) => (event.type === 'stdout' ? [event.data ?? ''] : [])).join('')
