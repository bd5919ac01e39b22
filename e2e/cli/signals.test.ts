/**
 * SIGINT, SIGTERM and SIGHUP at any moment: the final output appears, the exit code is the documented one, nothing is left. What
 * SIGHUP does to a run is in `detach.test.ts`.
 */
import { Program } from '../../test/kit/program.ts'
import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasTerminals, isolation, LAUNCHER, main, Place } from '../breakfall.ts'
import { Desk, serverIsolation, whole } from './desk.ts'
import { sayWhen } from '../answers.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

describe('a signal to a run', { ...LIMIT, concurrency: 1 }, () => {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    test(`${signal} at the very start: one result line, exit code 130, nothing started`, async () => {
      await using place = new Place({}, main)
      const running = place.start(['run', 'go', '--json', '--model', 'any'], REFUSING_URL)
      await listens(running)
      running.child.kill(signal)
      const { code, json, lines, stderr } = await running.ended
      assert.equal(code, 130, stderr)
      assert.equal(lines.length, 1)
      const { outcome, fault } = json[0] as { outcome: string; fault: { category: string } }
      assert.deepEqual([outcome, fault.category], ['cancelled', 'cancelled'])
      assert.deepEqual(place.leftovers(), [])
    })

    test(`${signal} while its daemon starts: the run is cancelled, says so, and the daemon is gone`, async () => {
      await using place = new Place({}, main)
      const running = place.start(['run', 'go', '--model', 'any', ...isolation], REFUSING_URL)
      await until(() => place.leftovers().some((line) => line.includes(' up --json')))
      running.child.kill(signal)
      const { code, stderr } = await running.ended
      assert.equal(code, 130, stderr)
      assert.match(
        stderr,
        new RegExp(`cancelling…[^]*breakfall: Cancelled by ${signal === 'SIGINT' ? 'Ctrl-C' : signal}\\.\n`),
      )
      await until(() => place.leftovers().length === 0)
    })

    test(`${signal} in the middle of an answer: the turn is cancelled for that reason, and the daemon is gone`, async () => {
      await using desk = await Desk.start([sayWhen(new Promise(() => undefined), 'I begin ', 'never')])
      const running = desk.begin()
      await running.seen(({ type }) => type === 'text-delta')
      running.child.kill(signal)
      const { code, json, stderr } = await whole(running)
      assert.equal(code, 130, stderr)
      assert.deepEqual([json.at(-1)?.['event'], json.at(-1)?.['outcome']], ['result', 'cancelled'])
      const end = json.find(({ type }) => type === 'turn-error')
      assert.equal(end?.['reason'], signal === 'SIGINT' ? 'Ctrl-C' : signal)
      await until(() => desk.place.leftovers().length === 0)
    })
  }

  test('SIGTERM while it reads its prompt from an open pipe ends it', async () => {
    await using place = new Place({}, main)
    const running = place.start(['run', '-', '--json'], {}, null)
    await listens(running)
    running.child.kill('SIGTERM')
    const { code, json } = await running.ended
    assert.deepEqual([code, json.at(-1)?.['outcome']], [130, 'cancelled'])
  })

  test('SIGTERM to the launcher of an older Node is not lost either, however early', async () => {
    await using place = new Place({}, LAUNCHER)
    const running = place.start(['run', 'go', '--json', '--model', 'any'], { ...REFUSING_URL, ...OLD_NODE })
    await listens(running)
    running.child.kill('SIGTERM')
    const { code, json, lines } = await running.ended
    assert.deepEqual([code, lines.length, json[0]?.['outcome']], [130, 1, 'cancelled'])
    assert.deepEqual(place.leftovers(), [])
  })
})

describe('Ctrl-C while the daemon of up is gone', { ...LIMIT, concurrency: 2 }, () => {
  /** A run at a daemon that is killed in the middle of an answer. */
  async function left(desk: Desk): Promise<Program> {
    const up = desk.start(['up', '--port', '0', '--json', ...serverIsolation])
    await up.seen(({ event }) => event === 'listening')
    const running = desk.begin()
    await running.seen(({ type }) => type === 'text-delta')
    up.child.kill('SIGKILL')
    await up.ended
    return running
  }
  const unfinished = (): Promise<Desk> => Desk.start([sayWhen(new Promise(() => undefined), 'I begin ', 'never')])

  test('the run cancels its turn in the journal, and ends', async () => {
    await using desk = await unfinished()
    const running = await left(desk)
    running.child.kill('SIGINT')
    const { code, json, stderr } = await whole(running)
    assert.equal(code, 130, stderr)
    assert.match(stderr, /Cancelled by Ctrl-C\. The daemon is away, so the turn ended without it\./)
    const { outcome, sessionId, turnId } = json.at(-1) ?? {}
    assert.deepEqual([outcome, typeof sessionId], ['cancelled', 'string'])
    const shown = await desk.command(['show', String(turnId), '--json'])
    assert.equal(shown.json.at(-1)?.['state'], 'cancelled')
    const again = await desk.command(['cancel', String(turnId)])
    assert.equal(again.code, 0)
    assert.match(again.stderr, /The turn has been cancelled before; nothing was cancelled\./)
  })

  test('if the journal cannot be used either, the run ends at once and says how to cancel the turn', async () => {
    await using desk = await unfinished()
    const running = await left(desk)
    rmSync(join(desk.stateDir, 'journal'), { recursive: true })
    writeFileSync(join(desk.stateDir, 'journal'), 'not a folder')
    running.child.kill('SIGINT')
    const { code, json, stderr } = await whole(running)
    assert.equal(code, 125, stderr)
    const { outcome, turnId } = json.at(-1) ?? {}
    assert.equal(outcome, 'failed')
    assert.ok(
      stderr.includes(`Not cancelled: the daemon is away. To cancel it: breakfall cancel ${String(turnId)}`),
      stderr,
    )
  })
})

test('npm start ends with npm: a shell that a signal kills does not leave the program behind', LIMIT, async () => {
  await using place = new Place()
  const start = fileURLToPath(new URL('../../scripts/start.mjs', import.meta.url))
  for (const node of [{}, OLD_NODE]) {
    // As npm runs it: a shell between npm and the program, which passes no signal on.
    const command = `"${process.execPath}" "${start}" gateway --upstream http://127.0.0.77:9009/v1 --port 0 --json; exit 9`
    const env = { PATH: process.env['PATH'] ?? '', HOME: place.home, npm_lifecycle_event: 'start', ...node }
    await using shell = new Program('/bin/sh', ['-c', command], { cwd: place.folder, env })
    const { url } = await shell.listening()
    shell.child.kill('SIGTERM')
    await eventually('the gateway is gone', () => fetch(`${url}/models`).then(() => false, isRefused))
  }
})

/** Nothing listens there any more. */
const isRefused = (error: unknown): boolean =>
  error instanceof Error && (error.cause as { code?: string } | undefined)?.code === 'ECONNREFUSED'

describe('the launcher of an older Node and its program act as one', { ...LIMIT, concurrency: 1 }, () => {
  for (const signal of SIGNALS)
    test(`${signal} to the process group counts once: a daemon shuts down cleanly`, async () => {
      await using place = new Place({}, LAUNCHER, { ownGroup: true })
      const running = place.start(['up', '--json'], OLD_NODE)
      await running.seen(({ event }) => event === 'listening')
      signalGroup(running, signal)
      const { code, json, stderr } = await running.ended
      assert.deepEqual([code, json.at(-1)], [0, { event: 'result', outcome: 'finished' }], stderr)
      assert.equal(existsSync(join(place.stateDir, 'daemon.json')), false)
    })

  test('a signal to the group before the program listens is not lost', async () => {
    await using place = new Place({}, LAUNCHER, { ownGroup: true })
    const running = place.start(['explain', '--json', '-'], OLD_NODE, null)
    await listens(running)
    signalGroup(running, 'SIGINT')
    const { code, json, lines } = await running.ended
    assert.deepEqual([code, lines.length, json[0]?.['outcome']], [130, 1, 'cancelled'])
  })

  test('kill -9 of the launcher ends its program, and the next one can start', async () => {
    await using place = new Place({}, LAUNCHER)
    const args = ['runner', '--json', '--state-dir', join(place.home, 'runner')]
    const first = place.start(args, OLD_NODE)
    await first.seen(({ event }) => event === 'listening')
    first.child.kill('SIGKILL')
    await until(() => place.leftovers().length === 0)
    await place.start(args, OLD_NODE).seen(({ event }) => event === 'listening')
  })

  test('both end when the terminal is closed, the launcher by SIGHUP', { skip: !hasTerminals }, async () => {
    await using place = new Place()
    const ended = join(place.home, 'ended')
    const notes = join(place.home, 'notes-the-end.sh') // it survives to see how the launcher ended
    const launcher = `"${process.execPath}" "${LAUNCHER}" gateway --upstream http://127.0.0.77:9009/v1 --port 0 --json`
    writeFileSync(notes, `trap : HUP; ${launcher}; echo "$?" >"${ended}.new"; mv "${ended}.new" "${ended}"`)
    const command = `sh "${notes}"; exit` // the shell of the terminal, which ends with it
    const env = { PATH: process.env['PATH'] ?? '', HOME: place.home, SHELL: '/bin/sh', ...OLD_NODE }
    await using terminal = new Program('/usr/bin/script', ['-qfec', command, '/dev/null'], { env, input: null })
    const { url } = await terminal.listening()
    terminal.child.kill('SIGKILL')
    await eventually('the launcher is gone', () => existsSync(ended))
    assert.equal(readFileSync(ended, 'utf8'), '129\n', 'an older Node that exits without its terminal aborts')
    await eventually('the gateway is gone', () => fetch(`${url}/models`).then(() => false, isRefused))
  })
})

test('a signal ends a command that waits for input, with a result line', LIMIT, async () => {
  await using place = new Place({}, main)
  const running = place.start(['explain', '--json', '-'], {}, null)
  await listens(running)
  running.child.kill('SIGHUP')
  const { code, json, lines } = await running.ended
  assert.deepEqual([code, lines.length, json[0]?.['outcome']], [130, 1, 'cancelled'])
})

// ---- details ----

/** A model server that refuses connections. */
const REFUSING_URL = { OPENAI_BASE_URL: 'http://127.0.0.77:9009/v1' }

/** Makes the launcher stay: on this Node it would replace itself with the program. */
const OLD_NODE = { NODE_OPTIONS: '--import data:text/javascript,process.execve=undefined' }

function signalGroup({ child }: Program, signal: NodeJS.Signals): void {
  process.kill(-(child.pid ?? assert.fail('it was not started')), signal)
}

/** Whether the program handles SIGHUP yet. Node handles the other signals itself, and this handler is set up last. */
function catches(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/status`)) return false
  const [, mask = '0'] = /^SigCgt:\s*(\S+)/m.exec(readFileSync(join('/proc', String(pid), 'status'), 'utf8')) ?? []
  return (BigInt(`0x${mask}`) & 1n) === 1n
}

const listens = (running: Program): Promise<void> => until(() => catches(running.child.pid ?? 0))

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(2)
}
