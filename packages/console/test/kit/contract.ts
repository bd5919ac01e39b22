/** What a staged daemon says, compared with the schemas of the wire: the stage cannot drift from the daemon. */
import { isFaultCategory } from '@breakfall/faults'
import {
  boxOverviewSchema,
  chaosSchema,
  daemonHealthSchema,
  daemonListSchema,
  faultListSchema,
  faultPageSchema,
  mcpListSchema,
  mcpServerSchema,
  parseEvent,
  runnerListSchema,
  sessionCheckpointsSchema,
  sessionListSchema,
  sessionSchema,
  systemSchema,
  turnListSchema,
  turnReceiptSchema,
  undoneSchema,
  watchChangeSchema,
  watchSnapshotSchema,
} from '@breakfall/wire'
import { faultOccurrencesSchema, faultsSeenSchema } from '@breakfall/wire/internal'
import type { z } from 'zod'

/** In this order: the first that fits. */
const ANSWERS: readonly (readonly [string, RegExp, z.ZodType])[] = [
  ['GET', /^\/v1\/health$/, daemonHealthSchema],
  ['GET', /^\/v1\/system$/, systemSchema],
  ['GET', /^\/v1\/boxes$/, boxOverviewSchema],
  ['GET', /^\/v1\/daemons$/, daemonListSchema],
  ['GET', /^\/v1\/runners$/, runnerListSchema],
  ['POST', /^\/v1\/sessions\/[^/]+\/undo$/, undoneSchema],
  ['GET', /^\/v1\/sessions\/[^/]+\/checkpoints$/, sessionCheckpointsSchema],
  ['GET', /^\/v1\/mcp$/, mcpListSchema],
  ['POST', /^\/v1\/mcp\/[^/]+\/restart$/, mcpServerSchema],
  ['GET', /^\/v1\/chaos$/, chaosSchema],
  ['GET', /^\/v1\/faults$/, faultListSchema],
  ['GET', /^\/v1\/faults\/seen$/, faultsSeenSchema],
  ['GET', /^\/v1\/faults\/seen\/[^/]+$/, faultOccurrencesSchema],
  ['GET', /^\/v1\/faults\/[^/]+$/, faultPageSchema],
  ['GET', /^\/v1\/sessions$/, sessionListSchema],
  ['POST', /^\/v1\/sessions$/, sessionSchema],
  ['GET', /^\/v1\/sessions\/[^/]+$/, sessionSchema],
  ['GET', /^\/v1\/sessions\/[^/]+\/turns$/, turnListSchema],
  ['POST', /^\/v1\/sessions\/[^/]+\/turns$/, turnReceiptSchema],
]

/** What is wrong with an answer; undefined if nothing is. */
export function answerDrift(method: string, path: string, status: number, json: unknown): string | undefined {
  if (status >= 400) return isProblem(json) ? undefined : `${method} ${path}: not a problem: ${JSON.stringify(json)}`
  const schema = ANSWERS.find(([verb, pattern]) => verb === method && pattern.test(path))?.[2]
  return schema === undefined ? undefined : drift(`${method} ${path}`, schema, json)
}

export const snapshotDrift = (value: unknown): string | undefined =>
  drift('the watch’s snapshot', watchSnapshotSchema, value)

export const changeDrift = (value: unknown): string | undefined => drift('a change', watchChangeSchema, value)

export function eventDrift(event: unknown): string | undefined {
  try {
    parseEvent(event)
    return undefined
  } catch (error) {
    return `${JSON.stringify(event).slice(0, 200)}: ${error instanceof Error ? error.message : String(error)}`
  }
}

// ---- details ----

const isProblem = (json: unknown): boolean =>
  typeof json === 'object' &&
  json !== null &&
  'category' in json &&
  typeof json.category === 'string' &&
  isFaultCategory(json.category) &&
  'error' in json

function drift(what: string, schema: z.ZodType, value: unknown): string | undefined {
  const { success, error } = schema.safeParse(value)
  if (success) return undefined
  return `${what}: ${error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')}`.slice(0, 600)
}
