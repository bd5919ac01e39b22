/** Which names a command could not reach, and the flag that allows them. Pure. */
import { isIP } from 'node:net'
import type { Diagnostic } from '@breakfall/faults'

/** `allowed`: what the box may reach, if that is known. Undefined if nothing was refused. */
export function refusedLine(
  diagnostics: readonly Diagnostic[],
  allowed: readonly string[] | undefined,
): string | undefined {
  const denied = diagnostics.find(({ id }) => id === 'network_denied')
  if (denied === undefined) return undefined
  const names = [...new Set((denied.evidence ?? []).map(patternOf))].filter(
    (name) => isIP(name.replace(/:\d+$/, '')) === 0,
  )
  // Refused for another reason than its name, it would be refused again.
  if (names.length === 0 || denied.message.includes(', because')) return denied.message
  const before = allowed === undefined ? ['NAMES'] : allowed.map(withoutPrefix)
  return `${denied.message}; to allow it in a new session: --network ${[...before, ...names].join(',')}`
}

// ---- details ----

/** A name alone means the ports 80 and 443. */
const patternOf = (tried: string): string => tried.replace(/:(?:80|443)$/, '')

const withoutPrefix = (name: string): string => name.replace(/^preset:/, '')
