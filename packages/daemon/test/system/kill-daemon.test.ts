import { LIMIT } from '../../../../test/kit/wait.ts'
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { SessionEvent } from '@breakfall/wire'
import { assembled, assertNoGap, types } from '../support/api.ts'
import { type DaemonProcess, spawnDaemon } from '../support/daemon-process.ts'
import { inOrder, type ScriptedModel, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { QUICK, stopRunner } from '../support/setup.ts'
import { ofType } from '../../../engine/test/support/events.ts'

const LAST_WORDS = 'All is written, edited and counted.'

/** Effects that can be counted atEnd: appends must not be repeated, an edit must be made once. */
const script = inOrder(
  {
    text: 'I start with two things.',
    calls: [
      { id: 'append-1', tool: 'bash', arguments: { command: 'echo one >> ledger; echo said-one; echo said-err >&2' } },
      { id: 'write-1', tool: 'write', arguments: { path: 'file.txt', content: '{ alpha beta }\n' } },
    ],
  },
  {
    calls: [
      { id: 'edit-1', tool: 'edit', arguments: { path: 'file.txt', old: 'beta', new: '' } },
      { id: 'append-2', tool: 'bash', arguments: { command: 'echo two >> ledger; exit 3' } },
    ],
  },
  { text: LAST_WORDS },
)

type Place = {
  readonly stateDir: string
  readonly model: ScriptedModel
  readonly options: object
  readonly workspace: (name: string) => string
}

async function place(t: TestContext): Promise<Place> {
  const folder = tempFolder(t)
  const stateDir = join(folder, 'state')
  const model = await startScriptedModel(script)
  atEnd(t, () => model.close())
  atEnd(t, () => stopRunner(stateDir))
  const workspaces = join(folder, 'work')
  mkdirSync(workspaces)
  return {
    stateDir,
    model,
    options: {
      stateDir,
      model: { baseUrl: model.baseUrl, name: 'scripted' },
      runner: { allowWorkspace: [workspaces] },
      policy: { backoffMs: 1 },
      limits: QUICK,
    },
    workspace: (name) => {
      const path = join(workspaces, name)
      mkdirSync(path)
      return path
    },
  }
}

const key = { 'idempotency-key': 'the-same-prompt' }

/** Everything that must hold after any sequence of kills. */
function check(events: readonly SessionEvent[], workspace: string): void {
  assertNoGap(events)
  assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), 'one\ntwo\n', 'each effect exactly once')
  assert.equal(readFileSync(join(workspace, 'file.txt'), 'utf8'), '{ alpha  }\n')
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end', JSON.stringify(end))
  assert.equal(end.text, LAST_WORDS)
  const texts = assembled(events)
  assert.deepEqual([texts.get(1), texts.get(3)], ['I start with two things.', LAST_WORDS])
  const calls = events.filter((event) => event.type === 'tool-call').map((event) => event.callId)
  const results = events.filter((event) => event.type === 'tool-result')
  assert.deepEqual(calls, ['append-1', 'write-1', 'edit-1', 'append-2'])
  assert.deepEqual(
    results.map(({ callId, outcome }) => [callId, outcome]),
    [
      ['append-1', 'ok'],
      ['write-1', 'ok'],
      ['edit-1', 'ok'],
      ['append-2', 'failed'],
    ],
  )
  const output = ofType(events, 'tool-output')
    .filter(({ stream }) => stream === 'stdout')
    .map(({ text }) => text)
  assert.equal(output.join(''), 'said-one\n', 'no line twice, none lost')
}

/** Kills a daemon at each of the points in turn. Each next daemon finishes what the killed one left. */
async function killAtEach(t: TestContext, points: readonly string[]): Promise<void> {
  const { options, workspace } = await place(t)
  let daemon: DaemonProcess = await spawnDaemon(options)
  atEnd(t, () => daemon.kill('SIGKILL'))
  for (const [index, point] of points.entries()) {
    const folder = workspace(`w${index}`)
    const { id: sessionId } = await daemon.api.session({ box: { workspace: folder } })
    await daemon.arm(point)
    // A client whose answer was lost retries with the same key: it gets the same turn, or starts it now.
    const turnId = await daemon.api.prompt(sessionId, 'work', {}, key).catch(() => null)
    assert.equal(await daemon.ended, 'SIGKILL', `died at ${point}`)
    daemon = await spawnDaemon(options)
    const again = await daemon.api.prompt(sessionId, 'work', {}, key)
    if (turnId !== null) assert.equal(again, turnId)
    const events = await daemon.api.ended(sessionId, again)
    try {
      check(events, folder)
      const isTakenOver = types(events).includes('taken-over')
      assert.equal(isTakenOver, !/after:turn-end|before:turn-start/.test(point), `taken over after ${point}`)
    } catch (cause) {
      throw new Error(`killed at ${point}: ${types(events).join(' ')}`, { cause })
    }
  }
  daemon.kill('SIGTERM')
  assert.equal(await daemon.ended, 0)
}

/** The points that an undisturbed turn passes. */
async function pointsPassed(t: TestContext): Promise<readonly string[]> {
  const { options, workspace } = await place(t)
  const daemon = await spawnDaemon(options)
  atEnd(t, () => daemon.kill('SIGKILL'))
  await daemon.arm('')
  const folder = workspace('whole')
  const { id } = await daemon.api.session({ box: { workspace: folder } })
  check(await daemon.api.ended(id, await daemon.api.prompt(id, 'work')), folder)
  return Object.entries(await daemon.counts()).flatMap(([name, count]) => {
    // "Before" an event equals "after" the previous one, so only the first event needs a "before".
    if (name.startsWith('before:') && name !== 'before:turn-start' && !/exec|write|edit/.test(name)) return []
    // Deltas come by the clock, so their number differs from run to run: their first stands for all. So it does for what
    // the model client says, which is journalled right after.
    return Array.from({ length: /delta|output|draft|answer:/.test(name) ? 1 : count }, (_, n) => `${name}#${n + 1}`)
  })
}

test(
  'killed at every event boundary and around every call, a turn continues and does nothing twice',
  LIMIT,
  async (t) => {
    const points = await pointsPassed(t)
    assert.ok(points.length >= 25, points.join(' '))
    const half = Math.ceil(points.length / 2)
    await Promise.all([killAtEach(t, points.slice(0, half)), killAtEach(t, points.slice(half))])
  },
)
