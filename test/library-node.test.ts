/** The published libraries run on Node 22.19. This finds names that Node 22 does not have; the tests in e2e/install run the packages there. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Source, sources } from './sources.ts'

/** What to use instead, if there is something. Syntax is no problem: the build compiles it. */
const NEWER: Readonly<Record<string, string>> = {
  randomUUIDv7: 'newId of @breakfall/wire/node',
  'RegExp.escape': 'a replace',
  DisposableStack: 'try and finally',
  AsyncDisposableStack: 'try and finally',
  'Promise.try': 'an async function',
  'Error.isError': 'instanceof Error',
  'Iterator.concat': 'a generator',
  'Uint8Array.fromBase64': 'Buffer',
  'Math.sumPrecise': 'a loop',
}

const LIBRARIES = ['faults', 'wire', 'supervisor', 'model', 'client', 'chaos', 'runner', 'gateway', 'mcp']

const newerIn = ({ path, code }: Source): readonly string[] =>
  Object.entries(NEWER)
    .filter(([name]) => new RegExp(`\\b${name.replaceAll('.', '[.]')}\\b`).test(code))
    .map(([name, instead]) => `${path} uses ${name}, which Node 22 does not have; use ${instead}`)

test('no published library uses a name that Node 22 does not have', () => {
  assert.deepEqual(sources(`packages/{${LIBRARIES.join(',')}}/src/**/*.ts`).flatMap(newerIn), [])
})

test('no package uses randomUUIDv7, which the first releases of Node 24 do not have either', () => {
  const users = sources('packages/*/src/**/*.ts').filter(({ code }) => /\brandomUUIDv7\b/.test(code))
  assert.deepEqual(
    users.map(({ path }) => path),
    [],
  )
})

test('the check finds a newer name', () => {
  assert.equal(newerIn({ path: 'x', text: '', code: 'const id = randomUUIDv7()' }).length, 1)
})
