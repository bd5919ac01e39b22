/** A whole policy from what somebody set of one. */
import { Fault, type Policy, POLICY_DEFAULTS } from '@breakfall/faults'
import type { PolicyInput } from '@breakfall/wire'

/**
 * What is undefined counts as not set: options are often passed on from flags that were not given. Throws
 * `invalid_request` for a number that is none: compared with NaN, no limit is ever reached.
 */
export function resolvePolicy(over: PolicyInput | undefined): Policy {
  const set = Object.entries(over ?? {}).filter(([, value]) => value !== undefined)
  for (const [name, value] of set) if (!isAllowed(name, value)) throw wrong(name, value)
  return { ...POLICY_DEFAULTS, ...(Object.fromEntries(set) as Partial<Policy>) }
}

// ---- details ----

/** Names that we do not know are nobody's harm here; whoever reads them from outside refuses them there. */
function isAllowed(name: string, value: unknown): boolean {
  if (!NUMBERS.has(name)) return true
  return (
    (typeof value === 'number' && Number.isFinite(value) && value >= 0) || (name === 'deadlineMs' && value === null)
  )
}

const NUMBERS = new Set(Object.keys(POLICY_DEFAULTS).filter((name) => name !== 'park' && name !== 'outcomeUnknown'))

function wrong(name: string, value: unknown): Fault {
  const expected = 'a number of 0 or more'
  return new Fault('invalid_request', {
    facts: { name: `policy.${name}`, detail: `expected ${expected}, got ${String(value)}` },
    errors: [{ field: `policy.${name}`, expected, got: String(value) }],
  })
}
