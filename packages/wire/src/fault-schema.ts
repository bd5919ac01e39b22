/** The fault report and the problem document as schemas. */
import { BOUNDARIES, FAULT_CLASSES, NEXT_STEPS, SIDE_EFFECTS } from '@breakfall/faults'
import { z } from 'zod'
import { time } from './fields.ts'

export const diagnosticSchema = z.looseObject({
  id: z.string(),
  rank: z.enum(['cause', 'consequence', 'hint']),
  message: z.string(),
  advice: z.string(),
  retry: z.string(),
  evidence: z.array(z.string()),
  count: z.int(),
})

const reportShape = {
  category: z.string().describe('Stable for ever. One that you do not know: go by class.'),
  class: z.enum(FAULT_CLASSES),
  boundary: z.enum(BOUNDARIES),
  phase: z.string().optional(),
  error: z.string().describe('Friendly: what happened, what was done, what you can do.'),
  errorRaw: z.string().describe('The cause chain as the machine said it, redacted.'),
  next: z.enum(NEXT_STEPS),
  retry: z.object({ attempt: z.int(), max: z.int(), nextAt: time.nullable() }).optional(),
  sideEffects: z.enum(SIDE_EFFECTS),
  diagnostics: z.array(diagnosticSchema),
  stopped: z.string().optional(),
  retryAfterMs: z.number().optional(),
  reason: z.string().optional(),
  errors: z.array(z.object({ field: z.string(), expected: z.string(), got: z.string() })).optional(),
  turnId: z.string().optional(),
  stepId: z.string().optional(),
  callId: z.string().optional(),
  execId: z.string().optional(),
  boxId: z.string().optional(),
  boxState: z.string().optional(),
  requestId: z.string().optional(),
  at: time,
}

export const faultReportSchema = z.looseObject(reportShape)

export const problemSchema = z.looseObject({
  type: z.string().startsWith('urn:breakfall:fault:'),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  ...reportShape,
})
