/** Which unfinished turns `up` continues: those that a crash cut off, all, or none. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Program } from '../../test/kit/program.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { refuse, say, sayWhen } from '../answers.ts'
import type { Json } from '../daemon/client.ts'
import { Desk, gone, serverIsolation } from './desk.ts'

test(
  'up says what it found unfinished; --resume none leaves it, interrupted continues what was cut off, all also what waits for a person',
  LIMIT,
  async () => {
    await using desk = await Desk.start()
    desk.model.script('cut', [sayWhen(new Promise(() => undefined), 'wait ', 'never'), say('continued')])
    desk.model.script('wrong', [refuse(401, { message: 'no such key' }), say('now it works')])
    desk.config(`[providers.p]
baseUrl = "${desk.model.url}"
apiKeyEnv = "P_KEY"
`)
    const keyed = { env: { P_KEY: 'a-key-0123456789abcdef0123' }, bare: true }
    const up = (...flags: readonly string[]): Program =>
      desk.start(['up', '--json', '--port', '0', ...flags, ...serverIsolation], keyed)
    const stateOf = async (turnId: string): Promise<string> =>
      String((await desk.command(['show', turnId, '--json'], { bare: true })).json.at(-1)?.['state'])

    const wrong = await desk.run(['go', '--model', 'p/wrong', '--share'], keyed)
    assert.equal(wrong.code, 4)
    const running = desk.begin(['go', '--model', 'p/cut', '--share'], keyed)
    const { turnId: cut } = (await running.seen(({ type }) => type === 'text-delta')) as Json
    const { pid } = desk.daemon()
    running.child.kill('SIGKILL')
    process.kill(pid, 'SIGKILL')
    await Promise.all([running.ended, gone(pid)])
    const turns = [String(cut), String(wrong.result.turnId)] as const

    const none = up('--resume', 'none')
    await none.listening()
    assert.deepEqual(await Promise.all(turns.map(stateOf)), ['running', 'parked'])
    assert.equal(desk.model.received('cut').length, 1, 'nothing was asked')
    await none.kill('SIGTERM')

    const interrupted = up()
    const { unfinished } = (await interrupted.listening()) as { unfinished: readonly Json[] }
    assert.deepEqual(
      new Set(
        unfinished.map(({ turnId, state, workspace, provider }) => [turnId, state, workspace, provider.baseUrl].join()),
      ),
      new Set([
        [turns[0], 'cut-off', desk.folder, desk.model.url].join(),
        [turns[1], 'parked', desk.folder, desk.model.url].join(),
      ]),
    )
    await eventually('the turn ends', async () => (await stateOf(turns[0])) === 'finished', 60_000)
    assert.equal(await stateOf(turns[1]), 'parked', 'a set-up that was wrong is still wrong')
    await interrupted.kill('SIGTERM')

    const other = { env: { P_KEY: 'another-key-0123456789abcdef' }, bare: true }
    const waits = desk.start(['up', '--json', '--port', '0', ...serverIsolation], other)
    await waits.listening()
    assert.equal(await stateOf(turns[1]), 'parked', 'interrupted: a change while no daemon ran does not resume it')
    await waits.kill('SIGTERM')
    const all = desk.start(['up', '--json', '--port', '0', '--resume', 'all', ...serverIsolation], other)
    await all.listening()
    await eventually('the turn ends', async () => (await stateOf(turns[1])) === 'finished', 60_000)
    await all.kill('SIGTERM')
  },
)
