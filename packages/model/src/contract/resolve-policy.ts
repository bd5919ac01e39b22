/** A full policy from the fields that a caller set. */
import { Fault, fullPolicy, type Policy, POLICY_DEFAULTS } from '@breakfall/faults'
import type { PolicyInput } from '@breakfall/wire'

/**
 * An undefined field counts as not set: options often come from flags that were not given. Throws `invalid_request` for a
 * number that is not one: compared with NaN, no limit is ever reached.
 */
export function resolvePolicy(over: PolicyInput | undefined): Policy {
  const set = Object.entries(over ?? {}).filter(([, value]) => value !== undefined)
  for (const [name, value] of set) if (!isAllowed(name, value)) throw wrong(name, value)
  return fullPolicy(over ?? {})
}

// ---- details ----

/** Unknown names do no harm here. The config and the API refuse them. */
function isAllowed(name: string, value: unknown): boolean {
  if (!NUMBERS.has(name)) return true
  return (
    (typeof value === 'number' && Number.isFinite(value) && value >= 0) || (name === 'deadlineMs' && value === null)
  )
}

/** Every field but those that hold a word, such as `park`. */
const NUMBERS = new Set(
  Object.entries(POLICY_DEFAULTS).flatMap(([name, value]) => (typeof value === 'string' ? [] : [name])),
)

function wrong(name: string, value: unknown): Fault {
  const expected = 'a number of 0 or more'
  return new Fault('invalid_request', {
    facts: { name: `policy.${name}`, detail: `expected ${expected}, got ${String(value)}` },
    errors: [{ field: `policy.${name}`, expected, got: String(value) }],
  })
}
