/** The background processes of sessions, at the daemon. */
import { z } from 'zod'
import { record } from './fields.ts'
import { processSchema } from './runner-api.ts'

const sessionProcessSchema = record({
  ...processSchema.shape,
  sessionId: z.string(),
  workspace: z.string().nullable().describe('the host folder of its box; null: a private one'),
})
export type SessionProcess = z.infer<typeof sessionProcessSchema>

export const sessionProcessListSchema = record({
  processes: z.array(sessionProcessSchema).readonly(),
  unreachable: z
    .array(z.string())
    .readonly()
    .optional()
    .describe('ids of runners that did not answer: their processes are missing here'),
})
export type SessionProcessList = z.infer<typeof sessionProcessListSchema>

export const stoppedProcessSchema = record({
  execId: z.string(),
  name: z.string(),
  end: z.string().describe('how it ended, in a few words'),
})
export type StoppedProcess = z.infer<typeof stoppedProcessSchema>
