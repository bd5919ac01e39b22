/** A turn's policy in a request, in the config and in flags. Every field is optional. */
import type { Policy } from '@breakfall/faults'
import { z } from 'zod'
import { body, integer, oneOf } from './fields.ts'

const DAY_MS = 86_400_000

export const policySchema = body({
  attemptsMax: integer(1, 100).optional(),
  patienceMs: integer(0, DAY_MS).optional(),
  failuresMax: integer(1, 10_000).optional(),
  waitMsMax: integer(0, 7 * DAY_MS).optional(),
  park: oneOf(['auto', 'never']).optional(),
  parkMsMax: integer(0, 365 * DAY_MS).optional(),
  outcomeUnknown: oneOf(['tell', 'stop']).optional(),
  stepsMax: integer(1, 10_000).optional(),
  repeatsMax: integer(0, 10_000).optional(),
  compactionsMax: integer(0, 10_000).optional(),
  deadlineMs: z
    .union([integer(1, 365 * DAY_MS), z.null()], { error: `an integer from 1 to ${365 * DAY_MS}, or null` })
    .optional(),
  backoffMs: integer(0, 60_000).optional(),
  connectMs: integer(1, DAY_MS).optional(),
  headersMs: integer(1, DAY_MS).optional(),
  livenessMs: integer(1, DAY_MS).optional(),
  progressMs: integer(1, DAY_MS).optional(),
  boxIdleMs: integer(0, 365 * DAY_MS).optional(),
  approve: oneOf(['never', 'unsafe', 'always']).optional(),
  approveMsMax: integer(0, 365 * DAY_MS).optional(),
})

export type PolicyInput = z.infer<typeof policySchema>

export const POLICY_KEYS = Object.keys(policySchema.shape) as readonly (keyof Policy)[]
