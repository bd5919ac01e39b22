/** The fault report and the problem document as schemas. */
import { BOUNDARIES, FAULT_CLASSES, NEXT_STEPS, SIDE_EFFECTS } from '@breakfall/faults'
import { SERVE_STATES } from '@breakfall/faults/internal'
import { z } from 'zod'
import { record, time } from './fields.ts'

export const diagnosticSchema = record({
  id: z.string(),
  rank: z.enum(['cause', 'consequence', 'hint']),
  message: z.string(),
  advice: z.string(),
  retry: z.string(),
  evidence: z.array(z.string()).readonly(),
  count: z.int(),
})

const reportShape = {
  category: z.string().describe('Stable. For a category that you do not know, use its class.'),
  class: z.enum(FAULT_CLASSES),
  boundary: z.enum(BOUNDARIES),
  phase: z.string().optional(),
  error: z.string().describe('For people: what happened, what Breakfall does about it, what you can do.'),
  message: z
    .object({ happened: z.string(), action: z.string().optional(), advice: z.string().optional() })
    .optional()
    .describe('The facts that `error` is joined from. Absent: `error` is what happened.'),
  errorRaw: z.string().describe('The original cause chain, redacted.'),
  next: z.enum(NEXT_STEPS),
  retry: z.object({ attempt: z.int(), max: z.int(), nextAt: time.nullable() }).optional(),
  sideEffects: z.enum(SIDE_EFFECTS),
  diagnostics: z.array(diagnosticSchema).readonly(),
  stopped: z.string().optional(),
  retryAfterMs: z.number().optional(),
  status: z.number().optional().describe('the HTTP status of the other side'),
  reason: z.string().optional(),
  errors: z
    .array(z.object({ field: z.string(), expected: z.string(), got: z.string() }))
    .readonly()
    .optional(),
  serve: z
    .object({
      boot: z.int(),
      pid: z.int().nullable(),
      state: z.enum(SERVE_STATES),
      exit: z.object({ code: z.int().nullable(), signal: z.string().nullable() }).nullable(),
    })
    .optional()
    .describe('The model server that Breakfall runs, if the fault is about it.'),
  epochSeen: z.int().optional().describe('With lease_lost: the highest epoch that the runner has seen for this box.'),
  paths: z
    .array(z.string())
    .readonly()
    .optional()
    .describe('With checkpoint_conflict: the files that the restore would overwrite; at most 64.'),
  turnId: z.string().optional(),
  stepId: z.string().optional(),
  callId: z.string().optional(),
  execId: z.string().optional(),
  boxId: z.string().optional(),
  boxState: z.string().optional(),
  requestId: z.string().optional(),
  at: time,
}

export const faultReportSchema = record(reportShape)
/** A fault report as read from outside: only a newer version may know its category. */
export type WireFault = z.infer<typeof faultReportSchema>

export const problemSchema = record({
  ...reportShape,
  type: z.string().startsWith('urn:breakfall:fault:'),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
})
