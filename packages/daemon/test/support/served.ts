/** Model servers that a daemon runs itself: real children with short limits. */
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('../programs/model-with-bad-boots.ts', import.meta.url))

/** A server whose boots go wrong one after another, and well after that. It appends to `log` at every boot. */
export const commandFor = (log: string, ...behaviours: readonly string[]): readonly string[] => [
  process.execPath,
  PROGRAM,
  '{port}',
  log,
  ...behaviours,
]

/** A server without any sign of life is detected within two seconds, and restarts follow at once. */
export const QUICK_SERVER = {
  limits: { quietMs: 200, termMs: 400, backoffMs: 1 },
  health: { everyMs: 100, timeoutMs: 250, failuresMax: 4 },
} as const
