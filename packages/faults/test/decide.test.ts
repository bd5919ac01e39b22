/** What `decide` says, case by case. What holds in every case is in `decide-properties.test.ts`. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { decide, Fault, FAULT_CATEGORIES, FAULTS, POLICY_DEFAULTS } from '@breakfall/faults'
import { CASES } from './decide-cases.ts'
import { NOW, usual } from './situation.ts'

for (const { says, category, decision, ...rest } of CASES) {
  test(`${category}: ${says}`, () => {
    const { report } = new Fault(category, rest.fault)
    assert.deepEqual(
      decide(report, rest.situation ?? usual(report), { ...POLICY_DEFAULTS, ...rest.policy }, NOW),
      decision,
    )
  })
}

test('every category leads to the decision that its row announces', () => {
  const first: Readonly<Record<string, string>> = {
    never: 'stop',
    retry: 'retry',
    resolve: 'resolve',
    restart: 'restart',
    compact: 'compact',
    park: 'park',
  }
  for (const category of FAULT_CATEGORIES) {
    const { report } = new Fault(category)
    assert.equal(decide(report, usual(report), POLICY_DEFAULTS, NOW).action, first[FAULTS[category].next], category)
  }
})
