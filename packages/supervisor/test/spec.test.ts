import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isFault } from '@breakfall/faults'
import { supervise, SUPERVISOR_DEFAULTS, type SuperviseSpec } from '../src/index.ts'

function refusal(spec: unknown): readonly string[] {
  try {
    supervise(spec as SuperviseSpec)
  } catch (error) {
    assert.ok(isFault(error))
    assert.equal(error.category, 'invalid_request')
    const fields = (error.report.errors ?? []).map((entry) => entry.field)
    for (const field of fields) assert.ok(error.error.includes(field), `${error.error} names ${field}`)
    return fields
  }
  return []
}

describe('a bad spec is refused up front', () => {
  const cases: readonly [unknown, string][] = [
    [undefined, 'spec'],
    [{}, 'command'],
    [{ command: '' }, 'command'],
    [{ command: 'a\0b' }, 'command'],
    [{ command: 7 }, 'command'],
    [{ command: 'x', args: 'y' }, 'args'],
    [{ command: 'x', args: ['a\0'] }, 'args[0]'],
    [{ command: 'x', args: ['a', 5] }, 'args[1]'],
    // eslint-disable-next-line no-sparse-arrays -- a hole is the subject
    [{ command: 'x', args: [, 'a'] }, 'args[0]'],
    [{ command: 'x', cwd: '' }, 'cwd'],
    [{ command: 'x', env: { A: 1 } }, 'env.A'],
    [{ command: 'x', env: { 'A=B': 'c' } }, 'env.A=B'],
    [{ command: 'x', env: { A: undefined } }, 'env.A'],
    [{ command: 'x', env: ['A=b'] }, 'env'],
    [{ command: 'x', stdin: 'inherit' }, 'stdin'],
    [{ command: 'x', channel: 'fd4' }, 'channel'],
    [{ command: 'x', oneshot: 'yes' }, 'oneshot'],
    [{ command: 'x', onLine: true }, 'onLine'],
    [{ command: 'x', ready: 'line' }, 'ready'],
    [{ command: 'x', ready: { kind: 'magic' } }, 'ready.kind'],
    [{ command: 'x', ready: { kind: 'line', pattern: 'up' } }, 'ready.pattern'],
    [{ command: 'x', ready: { kind: 'http', url: 'ftp://x' } }, 'ready.url'],
    [{ command: 'x', ready: { kind: 'tcp', port: 0 } }, 'ready.port'],
    [{ command: 'x', ready: { kind: 'line', pattern: /up/, stream: 'sterr' } }, 'ready.stream'],
    [{ command: 'x', ready: { kind: 'tcp', port: 1, host: 5 } }, 'ready.host'],
    [{ command: 'x', ready: { kind: 'tcp', port: 1, prove: 'no' } }, 'ready.prove'],
    [{ command: 'x', ready: { kind: 'tcp', port: 1, every: 4 } }, 'ready.every'],
    [{ command: 'x', ready: { kind: 'http', url: 'http://127.0.0.1:0/' } }, 'ready.url'],
    [{ command: 'x', alive: { kind: 'tcp', port: 1, prove: true } }, 'alive.prove'],
    [{ command: 'x', alive: { kind: 'spawned' } }, 'alive.kind'],
    [{ command: 'x', alive: { kind: 'tcp', port: 1, everyMs: 0 } }, 'alive.everyMs'],
    [{ command: 'x', limits: { termMs: -1 } }, 'limits.termMs'],
    [{ command: 'x', limits: { termMs: 2 ** 31 } }, 'limits.termMs'],
    [{ command: 'x', limits: { hungMs: Number.NaN } }, 'limits.hungMs'],
    [{ command: 'x', limits: { patience: 1 } }, 'limits.patience'],
    [{ command: 'x', limits: [] }, 'limits'],
    [{ command: 'x', limits: null }, 'limits'],
    [{ command: 'x', clock: {} }, 'clock'],
    [{ command: 'x', argz: [], comand: 'y' }, 'comand'],
    [{ command: 'x', comand: 'y' }, 'comand'],
  ]
  for (const [spec, field] of cases) {
    it(`names ${field}`, () => assert.ok(refusal(spec).includes(field), refusal(spec).join()))
  }

  it('names all wrong fields at once, and shows no environment value', () => {
    assert.deepEqual(refusal({ command: '', args: 1, env: { KEY: 5 } }), ['command', 'args', 'env.KEY'])
    assert.throws(() => supervise({ command: 'x', env: { KEY: 'secret\0' } }), /^(?!.*secret)/)
  })
})

it('the default limits are those of the contract', () => {
  const { stdinMs, termMs, drainMs, backoffMs, failuresMax, windowMs, stableMs } = SUPERVISOR_DEFAULTS
  assert.deepEqual([stdinMs, termMs, drainMs], [2_000, 5_000, 1_000])
  assert.deepEqual([backoffMs, failuresMax, windowMs, stableMs], [500, 5, 600_000, 60_000])
})
