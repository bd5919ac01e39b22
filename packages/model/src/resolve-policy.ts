/** A whole policy from what somebody set of one. */
import { type Policy, POLICY_DEFAULTS } from '@breakfall/faults'

/** What is undefined counts as not set: options are often passed on from flags that were not given. */
export function resolvePolicy(over: Partial<Policy> | undefined): Policy {
  const set = Object.entries(over ?? {}).filter(([, value]) => value !== undefined)
  return { ...POLICY_DEFAULTS, ...(Object.fromEntries(set) as Partial<Policy>) }
}
