import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EXIT_CODES, FAULTS, REASONS } from '@breakfall/faults'
import { SIGNATURES, START_REASONS } from '@breakfall/supervisor'
import { EXEC_CAUSES, RESUME_REASONS, SPAWN_FAILURES, TOOL_OUTCOMES, TURN_STATES } from '@breakfall/wire'
import { explain } from '../src/explain/explain.ts'

/** By the table that they stand in. */
const PRINTED: Readonly<Record<string, readonly string[]>> = {
  'categories of faults': Object.keys(FAULTS),
  'our exit codes': Object.values(EXIT_CODES).map(String),
  'how a command in a box ended': EXEC_CAUSES,
  'why a command could not be started': [...SPAWN_FAILURES, ...START_REASONS],
  'why it goes on, waits or stopped': REASONS,
  'states of a turn': TURN_STATES,
  'outcomes of a tool': TOOL_OUTCOMES,
  'what woke a turn': RESUME_REASONS,
  'diagnoses of output': SIGNATURES.map(({ id }) => id),
  'what the summary says that was survived': ['taken_over', 'taken-over', 'parked'],
}

for (const [table, words] of Object.entries(PRINTED)) {
  test(`explain knows every word that is printed: ${table}`, () => {
    assert.ok(words.length > 0)
    const unknown = words.filter((word) => explain(word).by === 'nothing known' || explain(word).report.error === '')
    assert.deepEqual(unknown, [])
  })
}

test('a word that is a category is explained as one; a sentence that begins with a word of ours is not', () => {
  assert.equal(explain('cancelled').by, "a category's name")
  assert.equal(explain('taken_over').by, 'one of our words')
  assert.notEqual(explain('killed process 4711').by, 'one of our words')
})
