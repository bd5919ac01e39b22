import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '../src/node/new-id.ts'

test('an id is a UUIDv7 that holds the time it was made', () => {
  const before = Date.now()
  const id = newId()
  assert.match(id, /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  const made = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)
  assert.ok(made >= before && made <= Date.now(), `${made}`)
})

test('ids made at the same time differ', () => {
  assert.equal(new Set(Array.from({ length: 1000 }, newId)).size, 1000)
})
