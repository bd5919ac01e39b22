/** What the API shows of the daemons that share a store and of the runners that joined them, and how a runner joins. */
import { z } from 'zod'
import { body, httpUrl, id, integer, label, record, text, time } from './fields.ts'
import { RUNNER_STATES } from './names.ts'

/** A daemon that shares its store, and how many sessions it works on. */
export const daemonListSchema = record({
  daemons: z
    .array(
      record({
        bootId: z.string(),
        name: z.string(),
        url: z.string().nullable(),
        version: z.string(),
        configHash: z.string(),
        state: z.enum(['live', 'draining', 'dead']),
        leaseUntil: time,
        held: z.int(),
        places: z.int(),
        startedAt: time,
      }),
    )
    .readonly(),
})
export type DaemonList = z.infer<typeof daemonListSchema>

/** What a runner says about itself. Any program that knows its address may send it, with that runner's token. */
export const runnerJoinSchema = body({
  url: httpUrl.describe('where daemons reach it; believed once the runner answers there'),
  bootId: id('the id of its process').optional().describe('default: whichever boot answers at the address'),
  capacity: integer(1, 1_000_000).optional().describe('boxes that may run at once'),
  boxes: integer(0, 1_000_000).optional().describe('boxes that run now'),
  labels: z.array(label(), { error: 'a list of labels' }).max(64, { error: 'at most 64 labels' }).optional(),
  workspaces: z
    .array(text(4_096, 'a folder'), { error: 'a list of folders' })
    .max(1_000, { error: 'at most 1000 folders' })
    .optional()
    .describe('host folders that boxes may use; shared:DIR has the same files at every runner'),
  isolation: text(50, 'a level of isolation').optional(),
  version: text(100, 'a version').optional(),
  machine: text(200, 'a machine').optional().describe('two runners with the same one see the same files'),
})
export type RunnerJoin = z.infer<typeof runnerJoinSchema>

export const runnerSchema = record({
  runnerId: z.string(),
  bootId: z.string(),
  url: z.string(),
  state: z.enum(RUNNER_STATES),
  verifiedAt: time.describe('when a daemon last reached it at this address for the first time'),
  lastSeen: time,
  capacity: z.int(),
  boxes: z.int(),
  labels: z.array(z.string()).readonly(),
  workspaces: z.array(z.string()).readonly(),
  isolation: z.string(),
  version: z.string(),
})
export type RunnerView = z.infer<typeof runnerSchema>

export const runnerListSchema = record({ runners: z.array(runnerSchema).readonly() })
export type RunnerList = z.infer<typeof runnerListSchema>

/** `reachable: false`: nothing changed, because the runner does not answer at that address. */
export const runnerJoinedSchema = record({
  reachable: z.boolean(),
  because: z.string().optional(),
  againMs: z.int().optional().describe('how soon it should register again, at the latest'),
  runner: runnerSchema.nullable(),
})
export type RunnerJoined = z.infer<typeof runnerJoinedSchema>

/** With a code of `breakfall fleet enroll` in place of a token. */
export const runnerEnrollSchema = body({ runnerId: id('the id of the runner') })
export const runnerEnrolledSchema = record({ runnerId: z.string(), token: z.string() })
