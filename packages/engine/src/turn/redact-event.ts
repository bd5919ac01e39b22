/**
 * A session without its texts: no prompt, no answer, no output, no command. Types, times, faults and sizes stay, and so does the
 * shape of everything: whatever reads a journal reads this, too. Pure.
 */

/** Fields whose texts say what the work was about. */
const TEXTS: ReadonlySet<string> = new Set([
  'prompt',
  'text',
  'arguments',
  'system',
  'summary',
  'line',
  'title',
  'why',
  'evidence',
  'tail',
  'filesChanged',
  'instructions',
  'workspace',
  'workspaces',
  'behind',
  'agent',
  'result',
])

/** Fields that stay in an event of a type that this version does not know. */
const ENVELOPE: ReadonlySet<string> = new Set(['seq', 'type', 'sessionId', 'turnId', 'at'])

export const redactTexts = (value: unknown): unknown => mapped(value, (name) => TEXTS.has(name))

/** For an event that only a newer version knows: every text may be one of those. */
export const redactUnknown = (value: unknown): unknown => mapped(value, (name) => !ENVELOPE.has(name))

// ---- details ----

function mapped(value: unknown, isText: (name: string) => boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => mapped(item, isText))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name, isText(name) ? blanked(field) : mapped(field, isText)]),
  )
}

/** Every character that is not a space becomes an x, so sizes and lines stay. */
function blanked(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(/\S/g, 'x')
  if (Array.isArray(value)) return value.map(blanked)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, blanked(field)]))
}
