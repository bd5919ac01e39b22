import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EXIT_CODES, FAULTS, REASONS } from '@breakfall/faults'
import { SIGNATURES, START_REASONS } from '@breakfall/supervisor'
import { EXEC_CAUSES, RESUME_REASONS, SPAWN_FAILURES, TOOL_OUTCOMES, TURN_STATES } from '@breakfall/wire'
import { explain } from '../src/commands/explain/explanation.ts'

/** By the table that they come from. */
const PRINTED: Readonly<Record<string, readonly string[]>> = {
  'categories of faults': Object.keys(FAULTS),
  'our exit codes': Object.values(EXIT_CODES).map(String),
  'how a command in a box ended': EXEC_CAUSES,
  'why a command could not start': [...SPAWN_FAILURES, ...START_REASONS],
  'why it continues, waits or stops': REASONS,
  'states of a turn': TURN_STATES,
  'outcomes of a tool': TOOL_OUTCOMES,
  'what resumed a turn': RESUME_REASONS,
  'ids of diagnostics': SIGNATURES.map(({ id }) => id),
  'what the summary lists as survived': ['taken_over', 'taken-over', 'parked'],
}

for (const [table, terms] of Object.entries(PRINTED)) {
  test(`explain knows every printed term: ${table}`, () => {
    assert.ok(terms.length > 0)
    const unknown = terms.filter((term) => explain(term).by === 'nothing known' || explain(term).report.error === '')
    assert.deepEqual(unknown, [])
  })
}

test('a term that is a category is explained as the category, and a sentence that starts with a term is not a term', () => {
  assert.equal(explain('cancelled').by, "a category's name")
  assert.equal(explain('taken_over').by, 'one of our terms')
  assert.notEqual(explain('killed process 4711').by, 'one of our terms')
})
