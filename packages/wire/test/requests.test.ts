import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Fault, isFault } from '@breakfall/faults'
import { z } from 'zod'
import { sessionCreateSchema } from '../src/daemon-api.ts'
import * as wire from '../src/index.ts'
import { parseRequest } from '../src/parse.ts'

function refused(schema: z.ZodType, value: unknown): Fault {
  try {
    parseRequest(schema, value)
  } catch (error) {
    assert.ok(isFault(error))
    assert.equal(error.category, 'invalid_request')
    return error
  }
  return assert.fail(`accepted ${JSON.stringify(value)}`)
}

const fields = (schema: z.ZodType, value: unknown): readonly string[] =>
  (refused(schema, value).report.errors ?? []).map((error) => error.field)

test('a bad limit is named with its range and its value, as the wire says', () => {
  const fault = refused(wire.boxCreateSchema, { limits: { memoryMb: -1 } })
  assert.deepEqual(fault.report.errors, [
    { field: 'limits.memoryMb', expected: 'an integer from 16 to 65536', got: '-1' },
  ])
})

test('wrong limits are refused, never clamped or coerced', () => {
  for (const cpus of [0, -1, 1.5, '2', null, 999, Number.NaN])
    assert.deepEqual(fields(wire.boxCreateSchema, { limits: { cpus } }), ['limits.cpus'])
  for (const memoryMb of [0, 15, 65_537, '512', 1e300])
    assert.deepEqual(fields(wire.boxCreateSchema, { limits: { memoryMb } }), ['limits.memoryMb'])
})

test('an unknown field is named, also inside another', () => {
  assert.deepEqual(fields(wire.boxCreateSchema, { cpu: 1 }), ['cpu'])
  assert.deepEqual(fields(wire.boxCreateSchema, { limits: { memory: 1 } }), ['limits.memory'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: ['true'], tty: true }), ['tty'])
})

test('an exec needs a command or a shell line, not both and not none', () => {
  assert.deepEqual(fields(wire.execRequestSchema, {}), ['command'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: ['a'], shell: 'b' }), ['command'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: [] }), ['command'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: [''] }), ['command'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: 'ls' }), ['command'])
  parseRequest(wire.execRequestSchema, { shell: 'echo hi' })
})

test('a message about a bad request reads as a sentence', () => {
  const sentence = (value: unknown): string => {
    try {
      parseRequest(wire.execRequestSchema, value)
    } catch (fault) {
      return (fault as Error).message
    }
    return 'valid'
  }
  const command = 'a list of strings, unless shell is set'
  assert.equal(sentence({ command: ['a'], bogus: 1 }), 'The request is invalid: there is no field bogus')
  assert.equal(sentence({}), `The request is invalid: command must be given: ${command}, got nothing`)
  assert.equal(
    sentence({ command: ['a'], shell: 'b' }),
    `The request is invalid: command must be ${command}, got ["a"]`,
  )
})

test('NUL bytes and bad environment names are refused', () => {
  assert.deepEqual(fields(wire.execRequestSchema, { command: ['a\0b'] }), ['command.0'])
  assert.deepEqual(fields(wire.execRequestSchema, { shell: 'a\0b' }), ['shell'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: ['a'], env: { '1A': 'x' } }), ['env.1A'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: ['a'], env: { 'A=B': 'x' } }), ['env.A=B'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: ['a'], env: { A: 'x\0' } }), ['env.A'])
})

test('values that would silently change in transit are refused: half characters and an empty folder', () => {
  assert.deepEqual(fields(wire.execRequestSchema, { command: ['printf', '\ud800'] }), ['command.1'])
  assert.deepEqual(fields(wire.execRequestSchema, { command: ['a'], cwd: '' }), ['cwd'])
  assert.deepEqual(fields(wire.boxCreateSchema, { workspace: 'relative' }), ['workspace'])
  assert.deepEqual(fields(sessionCreateSchema, { model: ' ' }), ['model'])
})

test('ids that could leave a folder or a line are refused', () => {
  for (const id of ['', '../x', 'a/b', 'a b', '.hidden', '-flag', 'x'.repeat(129), 'a\n'])
    assert.deepEqual(fields(wire.boxCreateSchema, { id }), ['id'])
})

test('a body that is not an object is refused without naming a field', () => {
  for (const value of [null, [], 'x', 3]) assert.deepEqual(fields(wire.boxCreateSchema, value), [''])
})

test('a secret in a wrong field is not echoed', () => {
  const fault = refused(wire.boxCreateSchema, { token: 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz' })
  assert.ok(!JSON.stringify(fault).includes('abcdefghijklmnop'))
})

test('a policy takes each of its names and refuses nonsense', () => {
  parseRequest(wire.policySchema, {
    attemptsMax: 6,
    failuresMax: 60,
    waitMsMax: 1_800_000,
    park: 'auto',
    parkMsMax: 86_400_000,
    outcomeUnknown: 'tell',
    stepsMax: 200,
    repeatsMax: 8,
    compactionsMax: 50,
    deadlineMs: null,
    backoffMs: 500,
    connectMs: 10_000,
    headersMs: 300_000,
    livenessMs: 120_000,
    progressMs: 600_000,
    boxIdleMs: 600_000,
    approve: 'unsafe',
    approveMsMax: 86_400_000,
  })
  assert.deepEqual(fields(wire.policySchema, { park: 'maybe' }), ['park'])
  assert.deepEqual(fields(wire.policySchema, { attemptsMax: 0 }), ['attemptsMax'])
  assert.deepEqual(fields(wire.policySchema, { deadlineMs: 'soon' }), ['deadlineMs'])
})

test('an empty prompt is refused, and so is an empty key over WebSocket', () => {
  const prompt = { sessionId: 's', prompt: 'hi' }
  assert.deepEqual(fields(wire.wsParamsSchemas.prompt, { ...prompt, idempotencyKey: '' }), ['idempotencyKey'])
  assert.deepEqual(fields(wire.turnCreateSchema, { prompt: '  ' }), ['prompt'])
  assert.deepEqual(fields(wire.turnCreateSchema, {}), ['prompt'])
})

test('of thousands of unknown fields only the first are shown, and no other value is looked at', () => {
  let looked = 0
  const body: Record<string, unknown> = {}
  const enumerable = true
  for (let i = 0; i < 5_000; i++) Object.defineProperty(body, `x${i}`, { enumerable, get: () => (looked += 1) })
  assert.throws(() => parseRequest(z.strictObject({}), body), /there is no field x0; .* \(and 4997 more\)/)
  assert.ok(looked <= 40, `${looked} values`)
})
